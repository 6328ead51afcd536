#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/workspace_alignment.h"

namespace stoa::ops::cuda {
namespace {

// A workspace of several parts: what the scratch stack gives is aligned to less than libraries want.
class Parts {
 public:
  explicit Parts(void* workspace)
      : at_((reinterpret_cast<std::uintptr_t>(workspace) + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
            kWorkspaceAlignment) {}
  void* take(std::size_t bytes) {
    void* out = reinterpret_cast<void*>(at_);
    at_ += aligned(bytes);
    return out;
  }

 private:
  std::uintptr_t at_;
};

std::size_t bias_bytes(const LinearForward& op) {
  return op.bias && op.y.dtype != op.bias.dtype
             ? static_cast<std::size_t>(op.bias.elements()) * size_of(op.y.dtype)
             : 0;
}
std::size_t column_bytes(const LinearBackwardWeight& op) {
  if (!op.dbias) return 0;
  return static_cast<std::size_t>(column_sum_blocks(op.dy.shape[0]) * op.dy.shape[1]) * sizeof(float);
}

}  // namespace

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

std::size_t CudaBackend::workspace_bytes(const LinearForward& op) const {
  return aligned(matmul_->workspace_bytes()) + aligned(bias_bytes(op)) + kWorkspaceAlignment;
}
std::size_t CudaBackend::workspace_bytes(const LinearBackwardInput&) const {
  return aligned(matmul_->workspace_bytes()) + kWorkspaceAlignment;
}
std::size_t CudaBackend::workspace_bytes(const LinearBackwardWeight& op) const {
  return aligned(matmul_->workspace_bytes()) + aligned(column_bytes(op)) + kWorkspaceAlignment;
}

void CudaBackend::execute(const LinearForward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  require<ShapeError>(matmul.k > 0, "linear forward: x {} has no columns", op.x.text());
  Parts parts(resources.workspace);
  void* workspace = parts.take(matmul_->workspace_bytes());
  if (op.bias) {
    // The library adds a bias of the result's type.
    matmul.bias = op.bias.data;
    if (bias_bytes(op) > 0) {
      MapArgs cast;
      cast.x = op.bias.data;
      cast.x_type = element_of(op.bias.dtype);
      cast.y = parts.take(bias_bytes(op));
      cast.y_type = element_of(op.y.dtype);
      cast.count = op.bias.elements();
      cast.wide = is_aligned(op.bias.data);
      launch_map(cast, stream);
      matmul.bias = cast.y;
    }
  }
  matmul_->run(LinearForward::kName, matmul, stream, workspace);
}

void CudaBackend::execute(const LinearBackwardInput& op, Resources resources) {
  const Matmul matmul = matmul_of(op);
  if (matmul.m == 0 || matmul.n == 0) return;
  require<ShapeError>(matmul.k > 0, "linear backward input: dy {} has no columns", op.dy.text());
  Parts parts(resources.workspace);
  matmul_->run(LinearBackwardInput::kName, matmul, native_stream(resources.stream), parts.take(0));
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
  Parts parts(resources.workspace);
  matmul_->run(LinearBackwardWeight::kName, matmul, stream, parts.take(matmul_->workspace_bytes()));
  if (!op.dbias) return;
  ColumnSums sums;
  sums.x = rows_of(op.dy);
  sums.rows = op.dy.shape[0];
  sums.partial = static_cast<float*>(parts.take(column_bytes(op)));
  sums.wide = is_wide(sums.x);
  launch_column_sums(sums, stream);
  PartialSums add;
  add.partial = sums.partial;
  add.blocks = column_sum_blocks(sums.rows);
  add.stride = add.columns = sums.x.columns;
  add.out = op.dbias.as<float>();
  add.accumulate = op.accumulate;
  launch_add_partials(add, stream);
}

}  // namespace stoa::ops::cuda
