#include "nn/fp8.h"

namespace stoa::nn {
namespace {

// In scratch of the current frame: [1].
TensorView find_largest(Pass& pass, TensorView x, const Spread& spread) {
  const TensorView amax = pass.ops.scratch.allocate(accumulation_type(x.dtype), Shape{1});
  ops::run(pass.ops, ops::AbsoluteMax{.x = x, .amax = amax});
  const auto over = [&](parallel::Axis axis) {
    pass.parallel.along(axis).all_reduce(amax, comm::ReduceOp::kMax, pass.ops.stream)->wait();
  };
  if (spread.tensor) over(parallel::Axis::kTensor);
  if (spread.context) over(parallel::Axis::kContext);
  return amax;
}

}  // namespace

Quantized quantize(Pass& pass, TensorView x, const Fp8Operand& operand, Orientation wanted) {
  const Fp8& fp8 = *pass.fp8;
  Scratch& scratch = pass.ops.scratch;
  const Shape transposed{x.shape[1], ops::Quantize::padded(x.shape[0])};
  const DType type = fp8.type_of(operand.tensor);
  Quantized out;
  if (wanted != Orientation::kColumns) out.rows = scratch.allocate(type, x.shape);
  if (wanted != Orientation::kRows) out.columns = scratch.allocate(type, transposed);
  out.inverse_scale = scratch.allocate(accumulation_type(x.dtype), Shape{1});
  Scratch::Frame frame(scratch);
  const auto amax =
      amax_of(pass, operand.weight, operand.tensor, [&] { return find_largest(pass, x, operand.spread); });
  ops::run(pass.ops, ops::Quantize{.x = x,
                                   .amax = amax.scaling,
                                   .y = out.rows,
                                   .transposed = out.columns,
                                   .inverse_scale = out.inverse_scale,
                                   .seen = amax.seen,
                                   .margin = fp8.margin});
  return out;
}

}  // namespace stoa::nn
