// Stoa's own attention kernels (ops/attention.h), for every shape: what the attention library does not take.
// In bf16 and fp16 on matrix units, in fp32 without them.
#pragma once

#include "ops/cuda/kernels/cache_rows.h"
#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// Heads of one tensor: element (row, head, i) at row * stride + head * d + i.
struct HeadRows {
  void* data = nullptr;
  std::int64_t stride = 0;
};

struct AttentionArgs {
  Element type = Element::kF32;
  std::int64_t q_rows = 0, k_rows = 0;
  int heads = 0, groups = 0, d = 0;
  HeadRows q, k, v, o;
  float* lse = nullptr;  // [q_rows, heads]; forward: or null
  // Segments, as in AttentionSegments.
  const std::int32_t* q_begin = nullptr;
  const std::int32_t* k_begin = nullptr;
  const std::int32_t* k_count = nullptr;
  const std::int64_t* sample = nullptr;
  const std::int32_t* position = nullptr;
  const std::int32_t* behind = nullptr;  // null: 0
  std::int64_t segments = 0, longest_q = 0, longest_k = 0;
  bool causal = true;
  std::int64_t window = 0;
  float scale = 1, softcap = 0;
  const float* relative_bias = nullptr;  // [offsets, heads], rows `bias_stride` apart, or null
  std::int64_t first_offset = 0, offsets = 0, bias_stride = 0;
  float dropout = 0, keep_scale = 1;
  std::uint32_t key_lo = 0, key_hi = 0;
  std::int64_t first_head = 0;
  // Backward.
  HeadRows dout, dq, dk, dv;
  float* delta = nullptr;          // [q_rows, heads], written by the backward pass
  float* bias_gradient = nullptr;  // as relative_bias, rows `dbias_stride` apart, added to; or null
  std::int64_t dbias_stride = 0;
  float* bias_parts = nullptr;  // 16 bits with a bias gradient: [bias_gradient_parts(heads), heads, offsets]
  bool wide = false;            // d and all strides are multiples of 8, addresses of 16; not of caches
  // Keys and values in blocks of a cache, forward: key j of segment i is row j % block_rows of block
  // k_begin[i * block_columns + j / block_rows]. k and v have no stride then: they are [blocks, groups,
  // block_rows, head_width] elements of the cache.
  int block_rows = 0;    // 0: keys are neighbours
  int block_shift = -1;  // its logarithm, if it is a power of 2
  int head_width = 0;
  std::int64_t block_columns = 0;
  CacheForm cache = CacheForm::kF32;
  bool cache_wide = false;  // as cached_pack() takes it; of heads of the queries' type: d is a multiple of 8
  // Segments of up to `few` queries have a block for each kKeySpan keys, whose softmax becomes a state.
  int few = 0;
  std::int64_t spans = 0;      // of the longest text
  bool states_by_row = false;  // of all rows of queries, otherwise of `few` of each segment
  float* states = nullptr;     // [queries, heads, spans, d + kSpanSums]
};

inline constexpr int kLargestHead = 256;
inline constexpr int kLargestCachedHead = 576;  // over blocks; in 16 bits with values that are the keys
// Over blocks each span of 256 keys of a text has a softmax of its own, and these are merged in the order of
// the keys: the output of a query is the same whatever else is computed with it.
inline constexpr int kKeySpan = 256;
inline constexpr int kSpanSums = 2;  // of its state, behind d sums of values: the largest score and a sum
// Blocks over which the sum of one head's bias gradient is spread; of the shape alone, for a fixed order.
constexpr std::int64_t bias_gradient_parts(std::int64_t heads) { return (512 + heads - 1) / heads; }
// Summation in fp32 throughout. On matrix units probabilities and gradients of scores are rounded to the
// type.
void launch_attention_forward(const AttentionArgs& args, void* stream);
// dk and dv of rows that belong to no segment become 0.
void launch_attention_backward(const AttentionArgs& args, void* stream);

}  // namespace stoa::ops::cuda
