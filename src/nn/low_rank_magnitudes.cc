// Magnitudes of low-rank branches (DoRA, 2402.09353).
#include "nn/low_rank.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/scale_matrix.h"

namespace stoa::nn {

LowRank::Scales LowRank::scales(Pass& pass, TensorView w) const {
  Scratch& scratch = pass.ops.scratch;
  const DType sum = accumulation_type(w.dtype);
  const Scales out{scratch.allocate(sum, {outputs_}), scratch.allocate(sum, {outputs_})};
  if (!covers_all_) ops::run(pass.ops, ops::FillZero{out.inverse_norms});
  for (const Run& run : runs_)
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Branch& branch = branches_[i];
      Scratch::Frame frame(scratch);
      const TensorView rows = w.slice(branch.begin, branch.outputs), b = pass.params.get(branch.b.value),
                       a = pass.params.get(a_.value).slice(branch.row, branch.rank),
                       squares = out.inverse_norms.slice(branch.begin, branch.outputs),
                       read = scratch.allocate(w.dtype, b.shape), own = scratch.allocate(w.dtype, b.shape),
                       gram = scratch.allocate(w.dtype, {branch.rank, branch.rank});
      ops::run(pass.ops, ops::RowDots{.x = rows, .y = rows, .out = squares});
      ops::run(pass.ops, ops::LinearForward{.x = rows, .w = a, .bias = {}, .y = read});
      ops::run(pass.ops, ops::LinearForward{.x = a, .w = a, .bias = {}, .y = gram});
      ops::run(pass.ops, ops::LinearForward{.x = b, .w = gram, .bias = {}, .y = own});
      ops::run(pass.ops, ops::Combine{.a = run.scale * run.scale, .b = 2 * run.scale, .x = own, .y = read});
      ops::run(pass.ops, ops::RowDots{.x = read, .y = b, .out = squares, .accumulate = true});
    }
  if (splits_inputs_)
    pass.parallel.along(parallel::Axis::kTensor)
        .all_reduce(out.inverse_norms, comm::ReduceOp::kSum, pass.ops.stream)
        ->wait();
  ops::run(pass.ops, ops::InverseRoot{out.inverse_norms, out.inverse_norms});
  for (const Branch& branch : branches_) {
    const Shape row{1, branch.outputs};
    ops::run(pass.ops, ops::ScaleMatrix{.x = pass.params.get(branch.magnitude.value).reshape(row),
                                        .rows = {},
                                        .columns = out.inverse_norms.slice(branch.begin, branch.outputs),
                                        .bias = {},
                                        .y = out.factors.slice(branch.begin, branch.outputs).reshape(row)});
  }
  return out;
}

void LowRank::scale_columns(Pass& pass, const Scales& scales, TensorView x, TensorView bias, TensorView y,
                            bool accumulate) const {
  const auto scale = [&](std::int64_t begin, std::int64_t count, TensorView factors) {
    if (count == 0) return;
    ops::run(pass.ops, ops::ScaleMatrix{.x = x.columns(begin, count),
                                        .rows = {},
                                        .columns = factors,
                                        .bias = bias ? bias.slice(begin, count) : TensorView(),
                                        .y = y.columns(begin, count),
                                        .accumulate = accumulate});
  };
  std::int64_t next = 0;
  for (const Branch& branch : branches_) {
    scale(next, branch.begin - next, {});
    scale(branch.begin, branch.outputs, scales.factors.slice(branch.begin, branch.outputs));
    next = branch.begin + branch.outputs;
  }
  scale(next, outputs_ - next, {});
}

// With dropout (of what the branches read, and of what W reads where it is scaled) y = W x + bias - W d(x) +
// factor (W + scale B A) d(x).
void LowRank::forward_scaled(Pass& pass, TensorView x, TensorView w, TensorView bias, TensorView y) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const Scales own = scales(pass, w);
  const TensorView branch = scratch.allocate(y.dtype, y.shape), input = dropped(pass, x);
  if (!drops(pass)) {
    add_branches(pass, input, branch, y);
    scale_columns(pass, own, y, bias, y, false);
    return;
  }
  const TensorView sum = scratch.allocate(y.dtype, y.shape);
  ops::run(pass.ops, ops::LinearForward{.x = input, .w = w, .bias = {}, .y = sum});
  ops::run(pass.ops, ops::Combine{.a = -1, .b = 1, .x = sum, .y = y});
  add_branches(pass, input, branch, sum);
  scale_columns(pass, own, sum, bias, y, true);
}

void LowRank::backward_dropped_base(Pass& pass, const Gradient& gradient, TensorView w, TensorView dx) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView dy = pass.ops.scratch.allocate(gradient.sum.dtype, gradient.sum.shape);
  ops::run(pass.ops, ops::Cast{.x = gradient.sum, .y = dy});
  ops::run(pass.ops, ops::Combine{.a = -1, .b = 1, .x = gradient.dy, .y = dy});
  ops::run(pass.ops, ops::LinearBackwardInput{.dy = dy, .w = w, .dx = dx});
}

// dm = sum over tokens of dy (W + scale B A) x / norm: the products are recomputed rather than kept.
void LowRank::backward_magnitudes(Pass& pass, const Gradient& gradient, TensorView w,
                                  TensorView input) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const Shape shape{input.rows(), outputs_};
  const TensorView sum = scratch.allocate(input.dtype, shape), branch = scratch.allocate(input.dtype, shape);
  ops::run(pass.ops, ops::LinearForward{.x = input, .w = w, .bias = {}, .y = sum});
  add_branches(pass, input, branch, sum);
  ops::run(pass.ops,
           ops::ScaleMatrix{.x = sum, .rows = {}, .columns = gradient.inverse_norms, .bias = {}, .y = sum});
  for (const Branch& b : branches_) {
    if (!b.magnitude.trained()) continue;
    const GradTarget target = pass.grads->target(b.magnitude.grad);
    ops::run(pass.ops, ops::ScaleMatrixBackward{.x = sum.columns(b.begin, b.outputs),
                                                .dy = gradient.dy.columns(b.begin, b.outputs),
                                                .dcolumns = target.tensor,
                                                .accumulate = target.accumulate});
    pass.grads->notify(b.magnitude.grad);
  }
}

void LowRank::scale_rows(Pass& pass, TensorView w, TensorView out) const {
  Scratch::Frame frame(pass.ops.scratch);
  const Scales own = scales(pass, w);
  for (const Branch& b : branches_) {
    const TensorView rows = out.slice(b.begin, b.outputs);
    ops::run(
        pass.ops,
        ops::ScaleMatrix{
            .x = rows, .rows = own.factors.slice(b.begin, b.outputs), .columns = {}, .bias = {}, .y = rows});
  }
}

}  // namespace stoa::nn
