#include "ops/cuda/kernels/attention.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ops/cuda/cache_forms.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/attention_merge.h"
#include "ops/cuda/kernels/lse.h"
#include "ops/cuda/kernels/rotary.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {
namespace {

HeadRows head_rows(const TensorView& tensor) { return {tensor.data, tensor.stride0}; }

bool all_aligned_16(const AttentionForward& op) {
  return all_aligned({op.q.data, op.k.data, op.v.data, op.o.data});
}
bool all_aligned_16(const AttentionBackward& op) {
  return all_aligned(
      {op.q.data, op.k.data, op.v.data, op.o.data, op.dout.data, op.dq.data, op.dk.data, op.dv.data});
}

bool is_wide(const AttentionArgs& a, bool addresses) {
  const bool cache = a.block_rows > 0;
  const HeadRows rows[] = {a.q, cache ? HeadRows() : a.k, cache ? HeadRows() : a.v, a.o, a.dout, a.dq, a.dk,
                           a.dv};
  return addresses && a.d % 8 == 0 &&
         std::ranges::all_of(rows, [](const HeadRows& r) { return r.stride % 8 == 0; });
}

// Where parts of the bias gradient are summed before they are added (kernels/attention.h).
std::size_t bias_parts_bytes(const AttentionBackward& op) {
  if (!op.drelative_bias || op.q.dtype == DType::kF32) return 0;
  const std::int64_t heads = op.q.shape[1];
  return static_cast<std::size_t>(bias_gradient_parts(heads) * heads * op.drelative_bias.shape[0]) *
         sizeof(float);
}
std::size_t delta_bytes(const AttentionBackward& op) {
  return static_cast<std::size_t>(op.q.shape[0] * op.q.shape[1]) * sizeof(float);
}

// What the kernels cannot do, found when memory is planned.
template <class Op>
void check_heads(const Op& op) {
  const std::int64_t d = op.q.shape[2];
  const bool both = in_blocks(op.k) && (op.q.dtype == DType::kF32 || op.k.data == op.v.data);
  const int most = both ? kLargestCachedHead : kLargestHead;
  require<ConfigError>(d <= most, "{}: heads of {} elements on a GPU: expected at most {}", Op::kName, d,
                       most);
  if (!in_blocks(op.k)) return;
  const CacheShape cache(op.k);
  constexpr std::int64_t kMostRows = std::numeric_limits<int>::max();  // attention_few.cu has them as int
  require<ConfigError>(
      cache.blocks * cache.heads * cache.rows <= kMostRows,
      "{}: keys in {} blocks of {} rows of {} heads on a GPU: expected at most {} rows of heads", Op::kName,
      cache.blocks, cache.rows, cache.heads, kMostRows);
}

// Room for the states of spans: of all queries of a pass, or of some of every segment. Segments of more leave
// it to kernels that walk over all keys of a text; the outputs are the same.
struct StateRoom {
  static constexpr std::int64_t kMostFew = 16;
  static constexpr std::int64_t kMostSpans = 4096;  // for whose factors a block has shared memory
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  std::int64_t spans, few = 0;  // AttentionArgs::few
  bool by_row = false;
  std::size_t bytes = 0;  // a smaller pass needs no more of them

  explicit StateRoom(const AttentionForward& op) : spans(ceil_div(op.segments.longest_k, kKeySpan)) {
    const std::int64_t count = op.segments.count, rows = op.q.shape[0];
    const auto each = static_cast<std::size_t>(op.q.shape[1] * spans * (op.q.shape[2] + kSpanSums)) *
                      sizeof(float);  // of a query
    bytes = std::min(each * static_cast<std::size_t>(std::min(rows, count * kMostFew)), kMostBytes);
    if (bytes == 0 || spans > kMostSpans) return;
    const auto queries = static_cast<std::int64_t>(bytes / each);
    by_row = rows <= queries;
    few = std::min({kMostFew, op.segments.longest_q, by_row ? kMostFew : queries / count});
  }
};

void add_blocks(AttentionArgs& a, const AttentionForward& op, bool few_queries, void* workspace) {
  const CacheShape cache(op.k);
  const std::int64_t rows = cache.rows;
  a.block_rows = static_cast<int>(rows);
  if (std::has_single_bit(static_cast<std::uint64_t>(rows)))
    a.block_shift = std::countr_zero(static_cast<std::uint64_t>(rows));
  a.block_columns = op.segments.k_begin.shape[1];
  a.head_width = static_cast<int>(cache.width);
  a.cache = cache_form_of(op.k.dtype);
  const bool codes = a.cache == CacheForm::kCodes;
  a.cache_wide = a.d % 8 == 0 && (!codes || a.head_width % 4 == 0) && all_aligned({op.k.data, op.v.data});
  if (!few_queries) return;
  const StateRoom room(op);
  a.few = static_cast<int>(room.few), a.spans = room.spans;
  a.states_by_row = room.by_row;
  a.states = static_cast<float*>(workspace);
}

template <class Op>
AttentionArgs args_of(const Op& op) {
  AttentionArgs a;
  a.type = fast_element_of(Op::kName, op.q);
  a.q_rows = op.q.shape[0], a.k_rows = op.k.shape[0];
  a.heads = static_cast<int>(op.q.shape[1]), a.groups = static_cast<int>(op.k.shape[1]);
  a.d = static_cast<int>(op.q.shape[2]);
  check_heads(op);
  a.q = head_rows(op.q), a.k = head_rows(op.k), a.v = head_rows(op.v), a.o = head_rows(op.o);
  a.lse = op.lse ? op.lse.template as<float>() : nullptr;
  const AttentionSegments& s = op.segments;
  a.q_begin = s.q_begin.template as<std::int32_t>();
  a.k_begin = s.k_begin.template as<std::int32_t>();
  a.k_count = s.k_count.template as<std::int32_t>();
  a.behind = s.behind ? s.behind.template as<std::int32_t>() : nullptr;
  a.segments = s.count, a.longest_q = s.longest_q, a.longest_k = s.longest_k;
  const AttentionOptions& o = op.options;
  a.causal = o.causal;
  a.window = o.window;
  a.scale = static_cast<float>(o.scale);
  a.softcap = static_cast<float>(o.softcap);
  if (op.relative_bias) {
    a.relative_bias = op.relative_bias.template as<float>();
    a.first_offset = o.first_offset;
    a.offsets = op.relative_bias.shape[0];
    a.bias_stride = op.relative_bias.stride0;
  }
  if (o.dropout > 0) {
    a.dropout = o.dropout;
    a.keep_scale = static_cast<float>(1 / (1 - static_cast<double>(o.dropout)));
    a.key_lo = o.dropout_key.lo, a.key_hi = o.dropout_key.hi;
    a.first_head = o.first_head;
    a.sample = s.sample.template as<std::int64_t>();
    a.position = s.position.template as<std::int32_t>();
  }
  return a;
}

// Segments that fill all rows with `longest` each are all of that length.
template <class Op>
DenseAttention dense(const Op& op) {
  DenseAttention out;
  const AttentionSegments& s = op.segments;
  const std::int64_t rows = op.q.shape[0];
  const bool is_dense = s.count > 0 && s.longest_q > 1 && s.longest_q == s.longest_k &&
                        rows == op.k.shape[0] && s.count * s.longest_q == rows;
  const bool small = op.q.dtype == DType::kBF16 || op.q.dtype == DType::kF16;
  const bool plain = !s.behind && !in_blocks(op.k) && op.options.dropout == 0 && op.options.softcap == 0 &&
                     !op.relative_bias;
  if (!is_dense || !small || !plain) return out;
  out.type = op.q.dtype;
  out.batch = s.count, out.length = s.longest_q;
  out.heads = op.q.shape[1], out.groups = op.k.shape[1], out.d = op.q.shape[2];
  out.q_stride = op.q.stride0, out.k_stride = op.k.stride0, out.v_stride = op.v.stride0,
  out.o_stride = op.o.stride0;
  out.causal = op.options.causal;
  out.lse = op.lse.data != nullptr;
  out.window = op.options.window >= out.length && op.options.causal ? 0 : op.options.window;
  out.scale = static_cast<float>(op.options.scale);
  return out;
}

template <class Op>
bool goes_to(AttentionLibrary* library, const Op& op, const DenseAttention& problem) {
  return library && problem.batch > 0 && all_aligned_16(op) && library->takes(problem);
}

std::size_t lse_bytes(const DenseAttention& p) {
  return static_cast<std::size_t>(p.batch * p.heads * p.length) * sizeof(float);
}

float* aligned_start(void* workspace) {
  return reinterpret_cast<float*>(aligned(reinterpret_cast<std::uintptr_t>(workspace)));
}

}  // namespace

DenseAttention dense_of(const AttentionForward& op) { return dense(op); }

DenseAttention dense_of(const AttentionBackward& op) {
  DenseAttention out = dense(op);
  out.backward = true;
  out.dout_stride = op.dout.stride0;
  out.dq_stride = op.dq.stride0, out.dk_stride = op.dk.stride0, out.dv_stride = op.dv.stride0;
  return out;
}

// Alignment of addresses is not known when memory is planned: room for either way.
std::size_t CudaBackend::workspace_bytes(const AttentionForward& op) const {
  check_heads(op);
  if (in_blocks(op.k)) return kernels_.few_queries ? StateRoom(op).bytes : 0;
  const DenseAttention problem = dense_of(op);
  if (!attention_ || problem.batch == 0 || !attention_->takes(problem)) return 0;
  return aligned(attention_->workspace_bytes(problem)) + aligned(lse_bytes(problem)) + kWorkspaceAlignment;
}

std::size_t CudaBackend::workspace_bytes(const AttentionBackward& op) const {
  check_heads(op);
  const std::size_t own = delta_bytes(op) + bias_parts_bytes(op);
  const DenseAttention problem = dense_of(op);
  if (!attention_ || problem.batch == 0 || !attention_->takes(problem)) return own;
  return std::max(
      own, aligned(attention_->workspace_bytes(problem)) + aligned(lse_bytes(problem)) + kWorkspaceAlignment);
}

void CudaBackend::execute(const AttentionForward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  const DenseAttention problem = dense_of(op);
  if (!goes_to(attention_.get(), op, problem)) {
    AttentionArgs args = args_of(op);
    if (in_blocks(op.k)) add_blocks(args, op, kernels_.few_queries, resources.workspace);
    args.wide = is_wide(args, all_aligned_16(op));
    launch_attention_forward(args, stream);
    return;
  }
  float* lse = aligned_start(resources.workspace);
  AttentionPointers pointers{op.q.data, op.k.data, op.v.data, op.o.data, lse,
                             nullptr,   nullptr,   nullptr,   nullptr};
  attention_->run(problem, pointers, stream, reinterpret_cast<std::byte*>(lse) + aligned(lse_bytes(problem)));
  if (op.lse)
    launch_lse_to_rows({problem.batch, problem.heads, problem.length, lse, op.lse.as<float>()}, stream);
}

void CudaBackend::execute(const AttentionBackward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  const DenseAttention problem = dense_of(op);
  if (!goes_to(attention_.get(), op, problem)) {
    AttentionArgs args = args_of(op);
    args.dout = head_rows(op.dout);
    args.dq = head_rows(op.dq), args.dk = head_rows(op.dk), args.dv = head_rows(op.dv);
    args.wide = is_wide(args, all_aligned_16(op));
    args.delta = static_cast<float*>(resources.workspace);
    if (op.drelative_bias) {
      args.bias_gradient = op.drelative_bias.as<float>();
      args.dbias_stride = op.drelative_bias.stride0;
      args.bias_parts = args.delta + delta_bytes(op) / sizeof(float);
    }
    launch_attention_backward(args, stream);
    return;
  }
  float* lse = aligned_start(resources.workspace);
  launch_lse_from_rows({problem.batch, problem.heads, problem.length, lse, op.lse.as<float>()}, stream);
  AttentionPointers pointers{op.q.data,    op.k.data,  op.v.data,  op.o.data, lse,
                             op.dout.data, op.dq.data, op.dk.data, op.dv.data};
  attention_->run(problem, pointers, stream, reinterpret_cast<std::byte*>(lse) + aligned(lse_bytes(problem)));
}

void CudaBackend::execute(const AttentionMerge& op, Resources resources) {
  AttentionMergeArgs args;
  args.type = fast_element_of(AttentionMerge::kName, op.part);
  args.part = op.part.data, args.o = op.o.as<float>();
  args.part_lse = op.part_lse.as<float>(), args.lse = op.lse.as<float>();
  args.rows = op.lse.elements(), args.d = op.part.shape[2];
  args.wide = all_aligned({args.part, args.o}) && args.d % 8 == 0;
  launch_attention_merge(args, native_stream(resources.stream));
}

void CudaBackend::execute(const Rotary& op, Resources resources) {
  RotaryArgs args;
  fast_element_of(Rotary::kName, op.x);
  args.x = rows_of(op.x);
  args.tokens = op.x.shape[0], args.heads = op.x.shape[1], args.half = op.table.shape[2];
  args.positions = op.positions.as<std::int32_t>();
  args.table = op.table.as<float>();
  args.table_rows = op.table.shape[0];
  args.inverse = op.inverse;
  args.wide = is_wide(args.x) && args.half % 8 == 0 && is_aligned(args.table);
  launch_rotary(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
