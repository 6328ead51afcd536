// Kernels of attention (ops/attention.h).
//
// Scores are held transposed, [keys, queries] with queries in the lanes: maxima, sums and rescaling of the
// online softmax then need no work across lanes. Products are small GEMMs on packed blocks of 64 x 64: one
// operand is broadcast word by word, the other is read in vectors. A word is two bf16 that lie side by side
// along the summed dimension (vdpbf16ps, or tiles of AMX), or one float where the machine has no bf16
// products or the tensors have another type.
#pragma once

#include "base/rounding.h"
#include "ops/cpu/cache_form.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kKeyBlock = 64;
constexpr std::int64_t kForwardBlocks =
    8;  // query blocks of one forward task: they share packed keys and values

struct AttentionArgs {
  Rows q, k, v, o, dout, dq, dk, dv;  // [tokens, heads * d]
  float* lse = nullptr;               // [tokens, heads] or null
  std::int64_t heads = 0, groups = 0, d = 0;
  float scale = 1;  // not 0
  float softcap = 0;
  const float* relative_bias = nullptr;  // [offsets, heads], rows `bias_stride` apart, or null
  std::int64_t first_offset = 0, offsets = 0, bias_stride = 0;
  bool causal = true;
  std::int64_t window = 0;
  float dropout = 0, keep_scale = 1;
  std::uint32_t key_lo = 0, key_hi = 0;
  std::int64_t first_head = 0;
};

struct AttentionSegment {
  std::int64_t q_row = 0, queries = 0, k_row = 0, keys = 0;
  std::int64_t sample = 0, position = 0;
  float* bias_gradient = nullptr;  // [heads, offsets] of this segment alone, set by backward; or null
  std::int64_t behind = 0;         // positions of the last key before the last query
};

struct AttentionMergeArgs {
  Rows part, o;  // [tokens * heads, d]
  const float* part_lse = nullptr;
  float* lse = nullptr;
};

struct AttentionForwardKernels {
  // Queries [begin, end) of the segment, at most kForwardBlocks * kQueryBlock. `memory`: forward_bytes().
  void (*forward)(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                  std::int64_t begin, std::int64_t end, void* memory);
  // One query without dropout: reads keys and values where they lie. `memory`: 4 * (keys + padded d) bytes.
  void (*decode)(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                 std::int64_t query, void* memory);
  std::size_t (*forward_bytes)(Element type, std::int64_t d);
  // Rows [begin, end) of tokens * heads.
  void (*merge)(const AttentionMergeArgs& args, std::int64_t begin, std::int64_t end);
};
struct AttentionBackwardKernels {
  // All query heads of key head `group`.
  void (*backward)(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t group,
                   void* memory);
  std::size_t (*backward_bytes)(Element type, std::int64_t d, std::int64_t longest_q, std::int64_t longest_k,
                                bool grouped);
};

constexpr std::int64_t kPagedTaskRows = 32;       // queries times heads of a task over blocks
constexpr std::int64_t kPagedTileTaskRows = 192;  // tiles pack a block's values once per task
// Keys and values in blocks (ops/attention.h). Every kKeySpan keys of a sequence have a softmax of their own;
// these are merged in the order of the keys. So a few texts' keys can be shared out among many workers.
constexpr std::int64_t kKeySpan = 256;
// What the softmax of a span keeps for so many rows: outputs, sums and maxima.
constexpr std::int64_t paged_state_floats(std::int64_t rows, std::int64_t d) {
  constexpr std::int64_t kMostLanes = 16;
  return rows * (round_up(d, kMostLanes) + 2 * kMostLanes);
}
struct PagedHeads {
  const std::int32_t* blocks = nullptr;  // of the segment
  std::int64_t block_rows = 0;
  CacheForm cache = CacheForm::kF32;          // of keys and values; their Rows::type says nothing
  std::int64_t width = 0;                     // elements of a head's row of keys
  std::int64_t first_head = 0, end_head = 0;  // of one key head
  std::int64_t begin = 0, end = 0;            // queries of the segment
  // All spans, or some of them, which leave their softmax in `states`: paged_state_floats() for each span of
  // the sequence.
  std::int64_t first_span = 0, end_span = 0;
  float* states = nullptr;
};
struct AttentionPagedKernels {
  // The sums of a query go over spans and their blocks of kKeyBlock keys, which begin at multiples of them in
  // its sequence, and within a block in one order: its output depends neither on the other queries of the
  // call nor on where the keys lie. `memory`: bytes() of its rows.
  void (*forward)(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                  void* memory);
  // The output, from the states of all spans.
  void (*merge)(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                void* memory);
  // `type`: of queries; `cache`: of keys and values.
  std::size_t (*bytes)(Element type, CacheForm cache, std::int64_t rows, std::int64_t d);
  std::int64_t rows;  // of a task, where there are enough tasks
};

STOA_FOR_EACH_ISA(const AttentionForwardKernels& attention_forward_kernels())
STOA_FOR_EACH_ISA(const AttentionPagedKernels& attention_paged_kernels())
STOA_FOR_EACH_ISA(const AttentionBackwardKernels& attention_backward_kernels())
#if defined(__x86_64__)
// With bf16 products on the tiles of AMX.
namespace avx512bf16 {
const AttentionForwardKernels& attention_forward_tile_kernels();
const AttentionPagedKernels& attention_paged_tile_kernels();
const AttentionBackwardKernels& attention_backward_tile_kernels();
}  // namespace avx512bf16
#endif

}  // namespace stoa::ops::cpu
