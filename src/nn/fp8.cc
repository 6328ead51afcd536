#include "nn/fp8.h"

namespace stoa::nn {
namespace {

void find_largest(Pass& pass, TensorView x, const Spread& spread, TensorView amax) {
  ops::run(pass.ops, ops::AbsoluteMax{.x = x, .amax = amax});
  const auto over = [&](parallel::Axis axis) {
    pass.parallel.along(axis).all_reduce(amax, comm::ReduceOp::kMax, pass.ops.stream)->wait();
  };
  if (spread.tensor) over(parallel::Axis::kTensor);
  if (spread.context) over(parallel::Axis::kContext);
}

}  // namespace

Quantized quantize(Pass& pass, TensorView x, DType type, const Spread& spread, Orientation wanted) {
  Scratch& scratch = pass.ops.scratch;
  const Shape one{1}, transposed{x.shape[1], ops::Quantize::padded(x.shape[0])};
  const DType sum = accumulation_type(x.dtype);
  Quantized out;
  if (wanted != Orientation::kColumns) out.rows = scratch.allocate(type, x.shape);
  if (wanted != Orientation::kRows) out.columns = scratch.allocate(type, transposed);
  out.inverse_scale = scratch.allocate(sum, one);
  Scratch::Frame frame(scratch);
  const TensorView amax = scratch.allocate(sum, one);
  find_largest(pass, x, spread, amax);
  ops::run(pass.ops, ops::Quantize{.x = x,
                                   .amax = amax,
                                   .y = out.rows,
                                   .transposed = out.columns,
                                   .inverse_scale = out.inverse_scale,
                                   .seen = {},
                                   .margin = pass.fp8->margin});
  return out;
}

}  // namespace stoa::nn
