#include <cmath>

#include "ops/cuda/kernels/attention_sink.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kSinkThreads = 256, kSinkWarps = kSinkThreads / 32;

// A warp has a head of a token.
template <class T>
struct AttentionSinkKernel {
  using Args = AttentionSinkArgs;
  static constexpr const char* kName = "attention sink";
  static constexpr int kThreads = kSinkThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t r = t.block_x() * kSinkWarps + t.warp();
    const bool here = r < a.tokens * a.heads;
    const float lse = here ? a.lse[r] : 0.0f, sink = here ? a.sinks[r % a.heads] : 0.0f,
                top = lse > sink ? lse : sink, keys = expf(lse - top), sum = keys + expf(sink - top);
    t.sync_warp();  // all have read lse
    if (!here) return;
    T* o = static_cast<T*>(a.o) + r * a.width;
    for (std::int64_t i = t.lane(); i < a.width; i += 32) narrow(widen(o[i]) * (keys / sum), o[i]);
    if (t.lane() == 0) a.lse[r] = top + logf(sum);
  }
};

// A block has a head, its warps every eighth token.
template <class T>
struct AttentionSinkBackwardKernel {
  using Args = AttentionSinkArgs;
  static constexpr const char* kName = "attention sink backward";
  static constexpr int kThreads = kSinkThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t head = t.block_x();
    const float sink = a.sinks[head];
    float sum = 0;
    for (std::int64_t token = t.warp(); token < a.tokens; token += kSinkWarps) {
      const std::int64_t r = token * a.heads + head;
      const T *o = static_cast<const T*>(a.o) + r * a.width,
              *dout = static_cast<const T*>(a.dout) + r * a.width;
      float dot = 0;
      for (std::int64_t i = t.lane(); i < a.width; i += 32) dot = fmaf(widen(o[i]), widen(dout[i]), dot);
      sum = fmaf(expf(sink - a.lse[r]), dot, sum);
    }
    sum = block_reduce<Add>(t, sum, t.shared<float>());
    if (t.index() == 0) a.dsinks[head] = a.accumulate ? a.dsinks[head] - sum : -sum;
  }
};

}  // namespace

void launch_attention_sink(const AttentionSinkArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<AttentionSinkKernel<decltype(type)>>(
        {.x = ceil_div(a.tokens * a.heads, std::int64_t{kSinkWarps}), .threads = kSinkThreads}, stream, a);
  });
}

void launch_attention_sink_backward(const AttentionSinkArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<AttentionSinkBackwardKernel<decltype(type)>>(
        {.x = a.heads, .threads = kSinkThreads, .shared = kSinkWarps * sizeof(float)}, stream, a);
  });
}

}  // namespace stoa::ops::cuda
