#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/few_tokens.h"
#include "ops/cuda/linear_steps.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {

Matmul matmul_of(const LinearForward& op) {
  Matmul out;
  out.transpose_a = true;
  out.m = op.w.shape[0], out.n = op.x.shape[0], out.k = op.w.shape[1];
  out.operands = fast_element_of(LinearForward::kName, op.x);
  out.result = element_of(op.y.dtype);
  out.a = op.w.data, out.lda = op.w.stride0;
  out.b = op.x.data, out.ldb = op.x.stride0;
  out.d = op.y.data, out.ldd = op.y.stride0;
  return out;
}

Matmul matmul_of(const LinearBackwardInput& op) {
  Matmul out;
  out.m = op.w.shape[1], out.n = op.dy.shape[0], out.k = op.w.shape[0];
  out.operands = fast_element_of(LinearBackwardInput::kName, op.dy);
  out.result = element_of(op.dx.dtype);
  out.a = op.w.data, out.lda = op.w.stride0;
  out.b = op.dy.data, out.ldb = op.dy.stride0;
  out.d = op.dx.data, out.ldd = op.dx.stride0;
  out.beta = op.accumulate ? 1.0f : 0.0f;
  return out;
}

Matmul matmul_of(const LinearBackwardWeight& op) {
  Matmul out;
  out.transpose_b = true;
  out.m = op.x.shape[1], out.n = op.dy.shape[1], out.k = op.x.shape[0];
  out.operands = fast_element_of(LinearBackwardWeight::kName, op.x);
  out.result = element_of(op.dw.dtype);
  out.a = op.x.data, out.lda = op.x.stride0;
  out.b = op.dy.data, out.ldb = op.dy.stride0;
  out.d = op.dw.data, out.ldd = op.dw.stride0;
  out.beta = op.accumulate ? 1.0f : 0.0f;
  return out;
}

namespace {

bool is_of_few_tokens(const LinearForward& op) {
  const auto fits = [](const TensorView& rows) {
    return is_aligned(rows.data) && rows.stride0 % 8 == 0 && rows.shape[1] % 8 == 0;
  };
  return op.x.shape[0] <= kFewTokens && (op.x.dtype == DType::kBF16 || op.x.dtype == DType::kF16) && !op.x2 &&
         fits(op.x) && fits(op.w);
}

void run_few_tokens(const LinearForward& op, void* stream) {
  FewTokensArgs args;
  args.type = element_of(op.x.dtype), args.result = element_of(op.y.dtype);
  args.x = op.x.data, args.w = op.w.data, args.y = op.y.data;
  args.bias = op.bias ? op.bias.as<float>() : nullptr;
  args.tokens = op.x.shape[0], args.rows = op.w.shape[0], args.columns = op.w.shape[1];
  args.x_stride = op.x.stride0, args.w_stride = op.w.stride0, args.y_stride = op.y.stride0;
  launch_few_tokens(args, stream);
}

}  // namespace

std::size_t CudaBackend::workspace_bytes(const LinearForward& op) const {
  return aligned(matmul_->workspace_bytes()) + aligned(cast_bias_bytes(op.bias, op.y.dtype)) +
         kWorkspaceAlignment;
}
std::size_t CudaBackend::workspace_bytes(const LinearBackwardInput&) const {
  return aligned(matmul_->workspace_bytes()) + kWorkspaceAlignment;
}
std::size_t CudaBackend::workspace_bytes(const LinearBackwardWeight& op) const {
  return aligned(matmul_->workspace_bytes()) + aligned(column_sum_bytes(op.dy, op.dbias)) +
         kWorkspaceAlignment;
}

void CudaBackend::execute(const LinearForward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) fail<ShapeError>("linear forward: x {} has no columns", op.x.text());
  if (kernels_.few_tokens && is_of_few_tokens(op)) return run_few_tokens(op, stream);
  WorkspaceParts parts(resources.workspace);
  void* workspace = parts.take(matmul_->workspace_bytes());
  if (op.bias) matmul.bias = cast_bias(op.bias, op.y.dtype, parts, stream);
  matmul_->run(LinearForward::kName, matmul, stream, workspace);
  if (!op.x2 || op.x2.shape[1] == 0) return;
  Matmul second = matmul_of(LinearForward{.x = op.x2, .w = op.w2, .bias = {}, .y = op.y});
  second.beta = 1.0f;
  matmul_->run(LinearForward::kName, second, stream, workspace);
}

void CudaBackend::execute(const LinearBackwardInput& op, Resources resources) {
  const Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) fail<ShapeError>("linear backward input: dy {} has no columns", op.dy.text());
  WorkspaceParts parts(resources.workspace);
  void *const stream = native_stream(resources.stream), *const workspace = parts.take(0);
  matmul_->run(LinearBackwardInput::kName, matmul, stream, workspace);
  if (op.dy2 && op.dy2.shape[1] > 0)
    matmul_->run(LinearBackwardInput::kName,
                 matmul_of(LinearBackwardInput{.dy = op.dy2, .w = op.w2, .dx = op.dx, .accumulate = true}),
                 stream, workspace);
}

void CudaBackend::execute(const LinearBackwardWeight& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  const Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) {  // no tokens
    if (!op.accumulate) launch_fill_zero(op.dw.data, op.dw.bytes(), stream);
    if (op.dbias && !op.accumulate) launch_fill_zero(op.dbias.data, op.dbias.bytes(), stream);
    return;
  }
  WorkspaceParts parts(resources.workspace);
  matmul_->run(LinearBackwardWeight::kName, matmul, stream, parts.take(matmul_->workspace_bytes()));
  add_column_sums(op.dy, op.dbias, op.accumulate, parts, stream);
}

}  // namespace stoa::ops::cuda
