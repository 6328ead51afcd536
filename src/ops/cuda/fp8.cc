#include "ops/cuda/kernels/fp8.h"

#include <cmath>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/linear_steps.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

Float8 float8_of(DType type) { return type == DType::kE4M3 ? Float8::kE4M3 : Float8::kE5M2; }
float largest_of(DType type) {
  return dispatch_fp8(type, []<class T>() { return T::kLargest; });
}

template <class Op>
GroupedQuantizeArgs grouped_of(const Op& op) {
  fast_element_of(Op::kName, op.x);
  GroupedQuantizeArgs args;
  args.x = rows_of(op.x);
  args.rows = op.x.shape[0], args.groups = op.amax.shape[0];
  args.ids = op.groups ? op.groups.template as<std::int32_t>() : nullptr;
  args.wide = is_wide(args.x);
  return args;
}

// Of 8-bit operands the library adds a bias of 16 bits.
DType bias_type(const ScaledProduct& op) { return op.out.dtype == DType::kF32 ? DType::kBF16 : op.out.dtype; }

}  // namespace

// Column-major: out^T[N, M] = B A^T; both operands are contiguous along the summed dimension.
Matmul matmul_of(const ScaledProduct& op) {
  Matmul out;
  out.transpose_a = true;
  out.m = op.b.shape[0], out.n = op.a.shape[0], out.k = op.a.shape[1];
  out.result = fast_element_of(ScaledProduct::kName, op.out);
  out.scaled = Matmul::Scaled{float8_of(op.b.dtype), float8_of(op.a.dtype), op.inverse_b.as<float>(),
                              op.inverse_a.as<float>(), op.fast};
  out.a = op.b.data, out.lda = op.b.stride0;
  out.b = op.a.data, out.ldb = op.a.stride0;
  out.d = op.out.data, out.ldd = op.out.stride0;
  out.beta = op.accumulate ? 1.0f : 0.0f;
  return out;
}

std::size_t CudaBackend::workspace_bytes(const AbsoluteMax& op) const {
  return static_cast<std::size_t>(absolute_max_blocks(op.x.shape[0])) * sizeof(float);
}

void CudaBackend::execute(const AbsoluteMax& op, Resources resources) {
  fast_element_of(AbsoluteMax::kName, op.x);
  AbsoluteMaxArgs args;
  args.x = rows_of(op.x);
  args.rows = op.x.shape[0];
  args.partial = static_cast<float*>(resources.workspace);
  args.amax = op.amax.as<float>();
  args.wide = is_wide(args.x);
  launch_absolute_max(args, native_stream(resources.stream));
}

void CudaBackend::execute(const Quantize& op, Resources resources) {
  fast_element_of(Quantize::kName, op.x);
  const DType type = op.y ? op.y.dtype : op.transposed ? op.transposed.dtype : DType::kE4M3;
  QuantizeArgs args;
  args.x = rows_of(op.x);
  args.rows = op.x.shape[0];
  args.type = float8_of(type);
  args.amax = op.amax.as<float>();
  args.largest = largest_of(type);
  args.factor = static_cast<float>(std::exp2(-op.margin));
  args.y = static_cast<std::uint8_t*>(op.y.data);
  args.transposed = static_cast<std::uint8_t*>(op.transposed.data);
  args.pitch = Quantize::padded(args.rows);
  args.inverse_scale = op.inverse_scale.as<float>();
  args.seen = op.seen ? op.seen.as<float>() : nullptr;
  args.wide = is_wide(args.x) && all_aligned({args.y, args.transposed});
  launch_quantize(args, native_stream(resources.stream));
}

void CudaBackend::execute(const GroupedAbsoluteMax& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  launch_fill_zero(op.amax.data, op.amax.bytes(), stream);
  GroupedQuantizeArgs args = grouped_of(op);
  args.largest = op.amax.as<float>();
  launch_grouped_quantize(args, stream);
}

void CudaBackend::execute(const GroupedQuantize& op, Resources resources) {
  GroupedQuantizeArgs args = grouped_of(op);
  if (op.seen) args.largest = op.seen.as<float>(), args.largest_stride = op.seen.stride0;
  args.type = float8_of(op.y.dtype);
  args.amax = op.amax.as<float>(), args.amax_stride = op.amax.stride0;
  args.most = largest_of(op.y.dtype), args.factor = static_cast<float>(std::exp2(-op.margin));
  args.y = static_cast<std::uint8_t*>(op.y.data);
  args.inverse_scale = op.inverse_scale.as<float>();
  args.wide = args.wide && all_aligned({args.y});
  launch_grouped_quantize(args, native_stream(resources.stream));
}

void CudaBackend::execute(const AmaxHistoryUpdate& op, Resources resources) {
  fast_element_of(AmaxHistoryUpdate::kName, op.history);
  AmaxHistoryArgs args;
  args.seen = op.seen.as<float>();
  args.history = op.history.as<float>();
  args.amax = op.amax.as<float>();
  args.state = op.state.as<double>();
  args.count = op.history.shape[0], args.length = op.history.shape[1];
  args.most_recent = op.most_recent;
  launch_amax_history(args, native_stream(resources.stream));
}

std::size_t CudaBackend::workspace_bytes(const ScaledProduct& op) const {
  return aligned(matmul_->workspace_bytes()) + aligned(cast_bias_bytes(op.bias, bias_type(op))) +
         kWorkspaceAlignment;
}

void CudaBackend::execute(const ScaledProduct& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) {  // no tokens
    require<ShapeError>(!op.bias, "fp8 GEMM: a {} has no columns", op.a.text());
    if (!op.accumulate) launch_fill_rows(rows_of(op.out), op.out.rows(), stream);
    return;
  }
  WorkspaceParts parts(resources.workspace);
  void* workspace = parts.take(matmul_->workspace_bytes());
  if (op.bias) matmul.bias = cast_bias(op.bias, bias_type(op), parts, stream);
  matmul_->run(ScaledProduct::kName, matmul, stream, workspace);
}

std::size_t CudaBackend::workspace_bytes(const BiasBackward& op) const {
  return aligned(column_sum_bytes(op.dy, op.dbias)) + kWorkspaceAlignment;
}

void CudaBackend::execute(const BiasBackward& op, Resources resources) {
  fast_element_of(BiasBackward::kName, op.dy);
  if (op.dbias.elements() == 0) return;
  WorkspaceParts parts(resources.workspace);
  add_column_sums(op.dy, op.dbias, op.accumulate, parts, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
