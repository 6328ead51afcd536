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

Quantized quantize(Pass& pass, TensorView x, const Fp8Operand& operand, Orientation wanted) {
  const Fp8& fp8 = *pass.fp8;
  Scratch& scratch = pass.ops.scratch;
  const Shape one{1}, transposed{x.shape[1], ops::Quantize::padded(x.shape[0])};
  const DType type = operand.tensor == Fp8Tensor::kOutputGradient ? fp8.gradient : fp8.forward,
              sum = accumulation_type(x.dtype);
  Quantized out;
  if (wanted != Orientation::kColumns) out.rows = scratch.allocate(type, x.shape);
  if (wanted != Orientation::kRows) out.columns = scratch.allocate(type, transposed);
  out.inverse_scale = scratch.allocate(sum, one);
  Scratch::Frame frame(scratch);
  AmaxAccess::Place amax;
  if (fp8.history) {
    amax = fp8.history->of(operand.weight, operand.tensor);
    if (!pass.training) amax.seen = {};
  } else {
    amax.scaling = scratch.allocate(sum, one);
    find_largest(pass, x, operand.spread, amax.scaling);
  }
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
