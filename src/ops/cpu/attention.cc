// Attention: segments are divided into tasks (queries forward, key heads backward), one kernel call each.
#include <atomic>
#include <cstring>
#include <limits>

#include "base/rounding.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

const AttentionForwardKernels& forward_kernels(InstructionSet isa) {
#if defined(__x86_64__)
  if (isa == InstructionSet::kAmxBf16) return avx512bf16::attention_forward_tile_kernels();
#endif
  return STOA_KERNELS(isa, attention_forward_kernels);
}
const AttentionPagedKernels& paged_kernels(InstructionSet isa) {
#if defined(__x86_64__)
  if (isa == InstructionSet::kAmxBf16) return avx512bf16::attention_paged_tile_kernels();
#endif
  return STOA_KERNELS(isa, attention_paged_kernels);
}
const AttentionBackwardKernels& backward_kernels(InstructionSet isa) {
#if defined(__x86_64__)
  if (isa == InstructionSet::kAmxBf16) return avx512bf16::attention_backward_tile_kernels();
#endif
  return STOA_KERNELS(isa, attention_backward_kernels);
}

constexpr std::size_t kAlignment = 64;
std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// All heads of a token as one row; of a cache, one head (PagedHeads has the rest).
Rows head_rows(const TensorView& tensor) {
  if (in_blocks(tensor)) {
    const std::int64_t width = CacheShape(tensor).width;
    return {tensor.data, Element::kF32, width, 1, width};
  }
  return {tensor.data, element_of(tensor.dtype), tensor.stride0, 1, tensor.shape[1] * tensor.shape[2]};
}

template <class Op>
AttentionArgs attention_args(const Op& op) {
  AttentionArgs args;
  args.q = head_rows(op.q);
  args.k = head_rows(op.k);
  args.v = head_rows(op.v);
  args.o = head_rows(op.o);
  args.lse = op.lse ? op.lse.template as<float>() : nullptr;
  args.heads = op.q.shape[1];
  args.groups = op.k.shape[1];
  args.d = op.q.shape[2];
  args.scale = static_cast<float>(op.options.scale);
  args.softcap = static_cast<float>(op.options.softcap);
  if (op.relative_bias) {
    args.relative_bias = op.relative_bias.template as<float>();
    args.first_offset = op.options.first_offset;
    args.offsets = op.relative_bias.shape[0];
    args.bias_stride = op.relative_bias.stride0;
  }
  args.causal = op.options.causal;
  args.window = op.options.window;
  args.dropout = op.options.dropout;
  args.keep_scale = 1.0f / (1.0f - op.options.dropout);
  args.key_lo = op.options.dropout_key.lo;
  args.key_hi = op.options.dropout_key.hi;
  args.first_head = op.options.first_head;
  return args;
}

template <class Op>
AttentionSegment segment_of(const Op& op, std::int64_t i) {
  const auto& s = op.segments;
  AttentionSegment segment;
  const auto* q = s.q_begin.template as<std::int32_t>();
  segment.q_row = q[i];
  segment.queries = q[i + 1] - q[i];
  segment.k_row = s.k_begin.template as<std::int32_t>()[i];
  segment.keys = s.k_count.template as<std::int32_t>()[i];
  if (s.behind) segment.behind = s.behind.template as<std::int32_t>()[i];
  if (op.options.dropout != 0) {
    segment.sample = s.sample.template as<std::int64_t>()[i];
    segment.position = s.position.template as<std::int32_t>()[i];
  }
  return segment;
}

template <class Op>
void check_segments(const Op& op) {
  for (std::int64_t i = 0; i < op.segments.count; ++i) {
    const AttentionSegment s = segment_of(op, i);
    require<DataError>(s.queries >= 0 && s.keys >= 0 && s.q_row >= 0 &&
                           s.q_row + s.queries <= op.q.shape[0] &&
                           (in_blocks(op.k) || (s.k_row >= 0 && s.k_row + s.keys <= op.k.shape[0])),
                       "attention segment {}: queries [{}, {}) of {}, keys [{}, {}) of {}", i, s.q_row,
                       s.q_row + s.queries, op.q.shape[0], s.k_row, s.k_row + s.keys, op.k.shape[0]);
    require<InternalError>(s.queries <= op.segments.longest_q && s.keys <= op.segments.longest_k,
                           "attention segment {} has {} queries and {} keys, more than the bounds {} and {}",
                           i, s.queries, s.keys, op.segments.longest_q, op.segments.longest_k);
  }
}

// The table of a segment's blocks.
const std::int32_t* blocks_of(const AttentionForward& op, std::int64_t segment) {
  return op.segments.k_begin.as<std::int32_t>() + segment * op.segments.k_begin.shape[1];
}

void check_blocks(const AttentionForward& op) {
  for (std::int64_t i = 0; i < op.segments.count; ++i) {
    const std::int64_t keys = op.segments.k_count.as<std::int32_t>()[i];
    for (std::int64_t b = 0; b * CacheShape(op.k).rows < keys; ++b)
      require<DataError>(blocks_of(op, i)[b] >= 0 && blocks_of(op, i)[b] < op.k.shape[0],
                         "attention segment {}: block {} of {}", i, blocks_of(op, i)[b], op.k.shape[0]);
  }
}

// Whether the reference implementation must run: the kernels support neither fp64 nor a scale of 0.
template <class Op>
bool for_reference(const Op& op) {
  return op.q.dtype == DType::kF64 || static_cast<float>(op.options.scale) == 0.0f;
}

// True when no key belongs to two segments: each gradient row is then written by one task.
template <class Op>
bool keys_apart(const Op& op) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < op.segments.count; ++i) {
    const AttentionSegment s = segment_of(op, i);
    if (s.k_row < end) return false;
    end = s.k_row + s.keys;
  }
  return true;
}

void zero_rows(const TensorView& tensor, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r)
    std::memset(tensor.byte_offset(r * tensor.stride0), 0,
                static_cast<std::size_t>(tensor.shape.inner()) * size_of(tensor.dtype));
}

// Zeroes rows outside of all segments. Queries of segments are contiguous, from q_begin[0] to q_begin[n].
template <class Op>
void zero_other_queries(const Op& op, const TensorView& tensor) {
  const auto* q = op.segments.q_begin.template as<std::int32_t>();
  zero_rows(tensor, 0, op.segments.count ? q[0] : tensor.rows());
  if (op.segments.count) zero_rows(tensor, q[op.segments.count], tensor.rows());
}

// Zeroes the rows of keys that belong to no segment; segments are in ascending order.
template <class Op>
void zero_other_keys(const Op& op, const TensorView& tensor) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < op.segments.count; ++i) {
    const AttentionSegment s = segment_of(op, i);
    zero_rows(tensor, end, s.k_row);
    end = s.k_row + s.keys;
  }
  zero_rows(tensor, end, tensor.rows());
}

constexpr std::int64_t kForwardQueries = kForwardBlocks * kQueryBlock;

// Workspace bytes per worker.
std::size_t forward_share(const AttentionForward& op, const AttentionForwardKernels& kernels) {
  const std::size_t decode =
      static_cast<std::size_t>(op.segments.longest_k + op.q.shape[2] + 64) * sizeof(float);
  return aligned(std::max(kernels.forward_bytes(element_of(op.q.dtype), op.q.shape[2]), decode));
}
std::size_t backward_share(const AttentionBackward& op, const AttentionBackwardKernels& kernels) {
  return aligned(kernels.backward_bytes(element_of(op.q.dtype), op.q.shape[2], op.segments.longest_q,
                                        op.segments.longest_k, op.q.shape[1] != op.k.shape[1]));
}

// How attention over blocks is cut: pieces of a segment's queries, for the heads of a key head or some of
// them, and of few pieces with few queries the spans of keys.
constexpr std::int64_t kSplitQueries = 4;  // more than these are not split over spans
constexpr std::int64_t kLeastTasks = 4;    // per worker, where larger tasks would save work
constexpr std::size_t kMostStateBytes = 64 << 20;
struct PagedCut {
  std::int64_t per_group, queries, spans;
  PagedCut(const AttentionForward& op, const AttentionPagedKernels& kernels)
      : per_group(op.q.shape[1] / CacheShape(op.k).heads),
        queries(queries_of(kernels.rows)),
        spans(ceil_div(op.segments.longest_k, kKeySpan)) {}

  // Queries of a task; fewer where there would be too few tasks.
  std::int64_t queries_of_task(std::int64_t all, std::int64_t groups, int workers) const {
    const std::int64_t least = queries_of(kPagedTaskRows),
                       shared_out = all * groups / (kLeastTasks * workers);
    return std::clamp(shared_out / least * least, least, queries);
  }

  std::size_t states_bytes(const AttentionForward& op) const {  // of the spans of a piece
    const std::int64_t floats =
        paged_state_floats(per_group * std::min(queries, kSplitQueries), op.q.shape[2]);
    return static_cast<std::size_t>(std::max<std::int64_t>(1, spans) * floats) * sizeof(float);
  }
  // Memory for states, which a smaller pass needs no more of, and the pieces for which it is enough.
  std::size_t split_bytes(const AttentionForward& op, int workers) const {
    if (spans < 2 || workers < 2) return 0;
    return std::min(static_cast<std::size_t>(2 * workers) * states_bytes(op), kMostStateBytes);
  }
  std::int64_t most_split(const AttentionForward& op, int workers) const {
    return static_cast<std::int64_t>(split_bytes(op, workers) / states_bytes(op));
  }

 private:
  std::int64_t queries_of(std::int64_t rows) const { return std::max<std::int64_t>(1, rows / per_group); }
};

// Where what `workers` workers need is in the workspace of attention over blocks.
struct PagedWorkspace {
  std::size_t share;  // of a worker
  std::size_t first, finished, states, total;
  PagedWorkspace(const AttentionForward& op, const AttentionPagedKernels& kernels, int workers) {
    const PagedCut cut(op, kernels);
    share = aligned(kernels.bytes(element_of(op.q.dtype), cache_form_of(op.k.dtype),
                                  cut.per_group * cut.queries, op.q.shape[2]));
    first = share * static_cast<std::size_t>(workers);
    finished = first + static_cast<std::size_t>(op.segments.count + 1) * sizeof(std::int32_t);
    states = aligned(finished + static_cast<std::size_t>(2 * workers) * sizeof(std::int32_t));
    total = states + cut.split_bytes(op, workers);
  }
};

// Outputs do not depend on the cut, so it may look at the number of workers.
void run_paged(const AttentionForward& op, const AttentionPagedKernels& kernels, WorkerPool& pool,
               void* workspace) {
  check_blocks(op);
  const AttentionArgs args = attention_args(op);
  const PagedWorkspace at(op, kernels, pool.size());
  auto* const memory = static_cast<char*>(workspace);
  const PagedCut cut(op, kernels);
  // The pieces of segment i are [first[i], first[i + 1]).
  auto* first = reinterpret_cast<std::int32_t*>(memory + at.first);
  const auto* q = op.segments.q_begin.as<std::int32_t>();
  const std::int64_t queries = cut.queries_of_task(q[op.segments.count] - q[0], args.groups, pool.size());
  first[0] = 0;
  for (std::int64_t i = 0; i < op.segments.count; ++i)
    first[i + 1] = first[i] + static_cast<std::int32_t>((q[i + 1] - q[i] + queries - 1) / queries);
  const std::int64_t pieces = first[op.segments.count] * args.groups;
  if (pieces == 0) return;
  const bool split = pieces <= cut.most_split(op, pool.size()) && op.segments.longest_q <= kSplitQueries;
  const std::int64_t spans = split ? cut.spans : 1;
  const std::int64_t parts =
      split ? 1 : std::clamp<std::int64_t>(kLeastTasks * pool.size() / pieces, 1, cut.per_group);
  auto* finished = reinterpret_cast<std::int32_t*>(memory + at.finished);  // spans of a piece
  if (split) std::fill_n(finished, pieces, 0);
  pool.run(pieces * parts * spans, [&](std::int64_t task, int worker) {
    const std::int64_t place = task / (spans * parts), part = task / spans % parts, span = task % spans;
    const std::int64_t group = place % args.groups, piece = place / args.groups;
    const std::int64_t i = std::upper_bound(first, first + op.segments.count + 1, piece) - first - 1;
    const AttentionSegment segment = segment_of(op, i);
    const std::int64_t begin = (piece - first[i]) * queries;
    PagedHeads heads{.blocks = blocks_of(op, i),
                     .block_rows = CacheShape(op.k).rows,
                     .cache = cache_form_of(op.k.dtype),
                     .width = CacheShape(op.k).width,
                     .first_head = group * cut.per_group + part * cut.per_group / parts,
                     .end_head = group * cut.per_group + (part + 1) * cut.per_group / parts,
                     .begin = begin,
                     .end = std::min(segment.queries, begin + queries),
                     .end_span = cut.spans};
    void* const own = memory + at.share * static_cast<std::size_t>(worker);
    if (!split) return kernels.forward(args, segment, heads, own);
    heads.first_span = span;
    heads.end_span = span + 1;
    heads.states =
        reinterpret_cast<float*>(memory + at.states + static_cast<std::size_t>(place) * cut.states_bytes(op));
    kernels.forward(args, segment, heads, own);
    if (std::atomic_ref(finished[place]).fetch_add(1, std::memory_order_acq_rel) + 1 < spans) return;
    heads.first_span = 0;  // the last to finish has all of them
    heads.end_span = spans;
    kernels.merge(args, segment, heads, own);
  });
}

}  // namespace

std::size_t CpuBackend::workspace_bytes(const AttentionForward& op) const {
  if (for_reference(op)) return ReferenceBackend::workspace_bytes(op);
  if (in_blocks(op.k)) return PagedWorkspace(op, paged_kernels(isa_), pool_.size()).total;
  return forward_share(op, forward_kernels(isa_)) * static_cast<std::size_t>(pool_.size());
}

void CpuBackend::execute(const AttentionForward& op, Resources resources) {
  if (for_reference(op)) return ReferenceBackend::execute(op, resources);
  check_segments(op);
  const AttentionForwardKernels& kernels = forward_kernels(isa_);
  const AttentionArgs args = attention_args(op);
  const std::size_t share = forward_share(op, kernels);
  zero_other_queries(op, op.o);
  if (op.lse) {
    const auto* q = op.segments.q_begin.as<std::int32_t>();
    const std::int64_t first = op.segments.count ? q[0] : op.lse.rows();
    const std::int64_t last = op.segments.count ? q[op.segments.count] : op.lse.rows();
    std::fill(args.lse, args.lse + first * args.heads, -std::numeric_limits<float>::infinity());
    std::fill(args.lse + last * args.heads, args.lse + op.lse.elements(),
              -std::numeric_limits<float>::infinity());
  }
  if (in_blocks(op.k)) return run_paged(op, paged_kernels(isa_), pool_, resources.workspace);
  // Late queries see most keys: their tasks start first, so that the last tasks to finish are short.
  const std::int64_t pieces = (op.segments.longest_q + kForwardQueries - 1) / kForwardQueries;
  const std::int64_t heads = args.heads, per_piece = op.segments.count * heads;
  pool_.run(pieces * per_piece, [&](std::int64_t task, int worker) {
    const std::int64_t piece = pieces - 1 - task / per_piece, head = task % heads;
    const AttentionSegment segment = segment_of(op, task % per_piece / heads);
    const std::int64_t begin = piece * kForwardQueries,
                       end = std::min(segment.queries, begin + kForwardQueries);
    if (begin >= end) return;
    void* memory = static_cast<char*>(resources.workspace) + share * static_cast<std::size_t>(worker);
    if (segment.queries <= 2 && args.dropout == 0) {
      for (std::int64_t query = begin; query < end; ++query)
        kernels.decode(args, segment, head, query, memory);
    } else {
      kernels.forward(args, segment, head, begin, end, memory);
    }
  });
}

void CpuBackend::execute(const AttentionMerge& op, Resources resources) {
  if (op.part.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const AttentionForwardKernels& kernels = forward_kernels(isa_);
  const std::int64_t rows = op.lse.elements(), d = op.part.shape[2];
  const auto rows_of_heads = [&](const TensorView& tensor) {
    return Rows{tensor.data, element_of(tensor.dtype), d, 1, d};
  };
  const AttentionMergeArgs args{rows_of_heads(op.part), rows_of_heads(op.o), op.part_lse.as<float>(),
                                op.lse.as<float>()};
  run_pieces(pool_, rows, rows_per_task(d),
             [&](std::int64_t begin, std::int64_t end) { kernels.merge(args, begin, end); });
}

std::size_t CpuBackend::workspace_bytes(const AttentionBackward& op) const {
  if (for_reference(op)) return ReferenceBackend::workspace_bytes(op);
  return backward_share(op, backward_kernels(isa_)) * static_cast<std::size_t>(pool_.size()) +
         static_cast<std::size_t>(op.drelative_bias.elements() * op.segments.count) * sizeof(float);
}

void CpuBackend::execute(const AttentionBackward& op, Resources resources) {
  if (for_reference(op)) return ReferenceBackend::execute(op, resources);
  check_segments(op);
  if (!keys_apart(op)) return ReferenceBackend::execute(op, resources);
  const AttentionBackwardKernels& kernels = backward_kernels(isa_);
  AttentionArgs args = attention_args(op);
  args.dout = head_rows(op.dout);
  args.dq = head_rows(op.dq);
  args.dk = head_rows(op.dk);
  args.dv = head_rows(op.dv);
  const std::size_t share = backward_share(op, kernels);
  zero_other_queries(op, op.dq);
  zero_other_keys(op, op.dk);
  zero_other_keys(op, op.dv);
  const std::int64_t table = args.heads * args.offsets;
  float* tables = reinterpret_cast<float*>(static_cast<char*>(resources.workspace) +
                                           share * static_cast<std::size_t>(pool_.size()));
  pool_.run(op.segments.count * args.groups, [&](std::int64_t task, int worker) {
    AttentionSegment segment = segment_of(op, task / args.groups);
    if (op.drelative_bias) segment.bias_gradient = tables + task / args.groups * table;
    void* memory = static_cast<char*>(resources.workspace) + share * static_cast<std::size_t>(worker);
    kernels.backward(args, segment, task % args.groups, memory);
  });
  if (!op.drelative_bias) return;
  for (std::int64_t s = 0; s < op.segments.count; ++s)
    for (std::int64_t i = 0; i < args.offsets; ++i) {
      float* sum = op.drelative_bias.as<float>() + i * op.drelative_bias.stride0;
      for (std::int64_t h = 0; h < args.heads; ++h) sum[h] += tables[s * table + h * args.offsets + i];
    }
}

}  // namespace stoa::ops::cpu
