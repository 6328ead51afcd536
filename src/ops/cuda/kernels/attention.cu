#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// delta = sum of dout * o over a head: a warp per (row, head).
template <class T, int V>
struct DeltaKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, delta";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * t.warps() + t.warp(), row = i / a.heads, head = i - row * a.heads;
    const bool mine = row < a.q_rows;
    float sum = 0;
    if (mine) {
      const T *dout = static_cast<const T*>(a.dout.data) + row * a.dout.stride + head * a.d,
              *o = static_cast<const T*>(a.o.data) + row * a.o.stride + head * a.d;
      for (int c = V * t.lane(); c < a.d; c += 32 * V) {
        float x[V], y[V];
        load_pack(dout + c, x);
        load_pack(o + c, y);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) sum = fmaf(x[j], y[j], sum);
      }
    }
    sum = warp_reduce<Add>(t, sum);
    if (mine && t.lane() == 0) a.delta[i] = sum;
  }
};

}  // namespace

namespace {

// A kernel has the segments of a few queries, another the rest.
void launch_attention_over_blocks(const AttentionArgs& a, void* stream) {
  const bool scalar = a.type == Element::kF32;
  if (a.few > 0) {
    (scalar                ? launch_few_scalar_queries
     : a.d <= kLargestHead ? launch_few_queries
                           : launch_few_large_heads)(a, stream);
    // A kernel of 16-bit heads leaves outputs itself where all keys of a text are one span.
    const bool joined = !scalar && a.d <= kLargestHead && a.spans == 1;
    if (!joined) launch_join_spans(a, stream);
  }
  if (a.longest_q <= a.few) return;
  (scalar                ? launch_cached_scalar_attention
   : a.d <= kLargestHead ? launch_matrix_attention_forward
                         : launch_large_cached_heads)(a, stream);
}

}  // namespace

void launch_attention_forward(const AttentionArgs& a, void* stream) {
  if (a.q_rows == 0 || a.segments == 0) return;
  if (a.block_rows > 0) return launch_attention_over_blocks(a, stream);
  (a.type == Element::kF32 ? launch_scalar_attention_forward : launch_matrix_attention_forward)(a, stream);
}

void launch_attention_backward(const AttentionArgs& a, void* stream) {
  for (const HeadRows& rows : {a.dk, a.dv})
    launch_fill_rows(
        {.data = rows.data, .type = a.type, .stride = rows.stride, .columns = std::int64_t{a.groups} * a.d},
        a.k_rows, stream);
  if (a.q_rows == 0 || a.segments == 0) return;
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto width) {
      launch<DeltaKernel<decltype(type), decltype(width)::value>>(
          {.x = ceil_div(a.q_rows * a.heads, 8), .threads = 256}, stream, a);
    });
  });
  if (a.type == Element::kF32) {
    launch_scalar_attention_backward(a, stream);
  } else {
    launch_matrix_attention_backward_queries(a, stream);
    launch_matrix_attention_backward_keys(a, stream);
  }
}

}  // namespace stoa::ops::cuda
