#include "ops/scale_matrix.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/scale_matrix.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

const float* floats_of(const TensorView& tensor) { return tensor ? tensor.as<float>() : nullptr; }

ScaleMatrixArgs matrices_of(const char* op, const TensorView& x, const TensorView& y, bool accumulate) {
  ScaleMatrixArgs args;
  args.type = fast_element_of(op, x);
  args.rows = x.rows(), args.columns = x.shape[1];
  args.x = x.data, args.x_stride = x.stride0;
  args.y = y.data, args.y_stride = y.stride0;
  args.accumulate = accumulate;
  return args;
}

}  // namespace

void CudaBackend::execute(const ScaleMatrix& op, Resources resources) {
  ScaleMatrixArgs args = matrices_of(ScaleMatrix::kName, op.x, op.y, op.accumulate);
  args.row_factors = floats_of(op.rows), args.column_factors = floats_of(op.columns);
  args.bias = floats_of(op.bias);
  launch_scale_matrix(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ScaleMatrixBackward& op, Resources resources) {
  ScaleMatrixArgs args = matrices_of(ScaleMatrixBackward::kName, op.x, op.dy, op.accumulate);
  args.out = op.dcolumns.as<float>();
  launch_column_dots(args, native_stream(resources.stream));
}

void CudaBackend::execute(const RowDots& op, Resources resources) {
  ScaleMatrixArgs args = matrices_of(RowDots::kName, op.x, op.y, op.accumulate);
  args.out = op.out.as<float>();
  launch_row_dots(args, native_stream(resources.stream));
}

void CudaBackend::execute(const InverseRoot& op, Resources resources) {
  fast_element_of(InverseRoot::kName, op.x);
  launch_inverse_root({op.x.as<float>(), op.y.as<float>(), op.x.elements()}, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
