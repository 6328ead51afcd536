#include <cmath>

#include "ops/cuda/kernels/attention_merge.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// A warp has one head of one token.
template <class T, int V>
struct MergeKernel {
  using Args = AttentionMergeArgs;
  static constexpr const char* kName = "attention merge";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x() * t.warps() + t.warp();
    if (row >= a.rows) return;
    const float lse = a.lse[row], part_lse = a.part_lse[row], top = Max::of(lse, part_lse);
    if (top == -INFINITY) return;  // no key in either
    const float own = expf(lse - top), other = expf(part_lse - top), sum = own + other;
    for (std::int64_t i = std::int64_t{t.lane()} * V; i < a.d; i += 32 * V) {
      float x[V], o[V];
      load_pack<V>(static_cast<const T*>(a.part) + row * a.d + i, x);
      load_pack<V>(a.o + row * a.d + i, o);
      STOA_UNROLL
      for (int v = 0; v < V; ++v) o[v] = (o[v] * own + x[v] * other) / sum;
      store_pack<V>(a.o + row * a.d + i, o);
    }
    t.sync_warp();  // all have read it
    if (t.lane() == 0) a.lse[row] = top + logf(sum);
  }
};

}  // namespace

void launch_attention_merge(const AttentionMergeArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      launch<MergeKernel<decltype(type), decltype(v)::value>>({.x = ceil_div(a.rows, 8), .threads = 256},
                                                              stream, a);
    });
  });
}

}  // namespace stoa::ops::cuda
