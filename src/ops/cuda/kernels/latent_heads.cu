#include "ops/cuda/kernels/latent_heads.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/unit.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;  // the most threads; a block has one token

template <class Unit>
struct LatentHeadsKernel {
  using Args = LatentHeadsArgs;
  static constexpr const char* kName = "latent heads";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t whole = a.rope + a.own, narrow = a.own + a.value, first = t.block_x() * a.heads;
    const Unit* shared = static_cast<const Unit*>(a.shared) + t.block_x() * a.shared_stride;
    const Unit nothing{};
    for (std::int64_t i = t.index(); i < a.heads * whole; i += t.count()) {
      const std::int64_t head = i / whole, at = i - head * whole;
      const Unit* kv = static_cast<const Unit*>(a.kv) + (first + head) * narrow;
      const std::int64_t to = first * whole + i;
      copy_unit(at < a.rope ? shared + at : kv + (at - a.rope), static_cast<Unit*>(a.k) + to);
      copy_unit(at < a.value ? kv + a.own + at : &nothing, static_cast<Unit*>(a.v) + to);
    }
  }
};

template <class Unit>
struct LatentHeadsBackwardKernel {
  using Args = LatentHeadsArgs;
  static constexpr const char* kName = "latent heads backward";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t whole = a.rope + a.own, narrow = a.own + a.value, first = t.block_x() * a.heads;
    for (std::int64_t i = t.index(); i < a.heads * narrow; i += t.count()) {
      const std::int64_t head = i / narrow, at = i - head * narrow, from = (first + head) * whole;
      copy_unit(at < a.own ? static_cast<const Unit*>(a.k) + from + a.rope + at
                           : static_cast<const Unit*>(a.v) + from + (at - a.own),
                static_cast<Unit*>(a.kv) + first * narrow + i);
    }
  }
};

template <class T>
struct SharedGradientKernel {
  using Args = SharedGradientArgs;
  static constexpr const char* kName = "latent heads backward, shared";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const T* dk = static_cast<const T*>(a.dk) + t.block_x() * a.heads * a.width;
    T* out = row_of<T>(a.drope, t.block_x());
    for (std::int64_t i = t.index(); i < a.drope.columns; i += t.count()) {
      float sum = 0;
      for (std::int64_t head = 0; head < a.heads; ++head) sum += widen(dk[head * a.width + i]);
      narrow(sum, out[i]);
    }
  }
};

}  // namespace

void launch_latent_heads(const LatentHeadsArgs& a, void* stream) {
  with_unit(a.unit, [&](auto unit) {
    launch<LatentHeadsKernel<decltype(unit)>>(
        {.x = a.tokens, .threads = round_up_warps(a.heads * (a.rope + a.own), kBlock)}, stream, a);
  });
}

void launch_latent_heads_backward(const LatentHeadsArgs& a, void* stream) {
  with_unit(a.unit, [&](auto unit) {
    launch<LatentHeadsBackwardKernel<decltype(unit)>>(
        {.x = a.tokens, .threads = round_up_warps(a.heads * (a.own + a.value), kBlock)}, stream, a);
  });
}

void launch_shared_gradient(const SharedGradientArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<SharedGradientKernel<decltype(type)>>(
        {.x = a.tokens, .threads = round_up_warps(a.drope.columns, kBlock)}, stream, a);
  });
}

}  // namespace stoa::ops::cuda
