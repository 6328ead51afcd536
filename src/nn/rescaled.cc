#include "nn/rescaled.h"

#include "nn/adapter_rows.h"
#include "ops/elementwise.h"
#include "ops/scale_matrix.h"

namespace stoa::nn {
namespace {

ParamSpec input_factors(const LinearOptions& o, const Rescaling& scaling, parallel::Part columns) {
  ParamSpec out;
  out.name = scaling.name + Rescaled::kSuffix;
  const bool copied = on_every_rank(o, LinearSplit::kInputs);
  ShardPiece piece;
  piece.name = out.name;
  piece.global = {o.inputs};
  piece.begin = columns.begin;
  piece.count = columns.count;
  piece.shared = copied;
  piece.first_copy = !copied || o.place.rank == 0;
  out.shard.pieces.push_back(std::move(piece));
  out.shard.local = {columns.count};
  // Each rank knows the part of its outputs, or of its rows of the stream.
  if (copied && (o.split == LinearSplit::kOutputs || o.place.splits_stream()))
    out.grad_partial_over.push_back(parallel::Group::kTensor);
  return out;
}

ParamSpec factors_of(ParamSpec spec) {
  spec.adapter = true;
  spec.init = {InitKind::kOnes, 0};
  spec.decay = false;
  return spec;
}

void scale_columns(Pass& pass, TensorView x, TensorView factors, TensorView y) {
  ops::run(pass.ops, ops::ScaleMatrix{.x = x, .rows = {}, .columns = factors, .bias = {}, .y = y});
}

void add_gradient(Pass& pass, const Param& factors, TensorView x, TensorView dy) {
  const GradTarget target = pass.grads->target(factors.grad);
  ops::run(pass.ops, ops::ScaleMatrixBackward{
                         .x = x, .dy = dy, .dcolumns = target.tensor, .accumulate = target.accumulate});
  pass.grads->notify(factors.grad);
}

}  // namespace

void Rescaled::declare(ParamList& params, const LinearOptions& o) {
  if (!params.adapters()) return;
  std::vector<std::string> pieces;
  for (const LinearPiece& piece : o.pieces) pieces.push_back(piece.name);
  for (const Rescaling& scaling : params.adapters()->rescalings(pieces)) {
    if (scaling.inputs) {
      const parallel::Part columns =
          o.split == LinearSplit::kInputs ? o.columns : parallel::Part{0, o.inputs};
      reads_ = params.add(factors_of(input_factors(o, scaling, columns)));
      continue;
    }
    Outputs out;
    out.factors = params.add(factors_of(output_rows(o, {scaling.name, scaling.pieces}, kSuffix)));
    const std::size_t first = first_piece(o, scaling.name, scaling.pieces);
    for (std::size_t p = 0; p < first + scaling.pieces.size(); ++p)
      (p < first ? out.begin : out.count) += o.pieces[p].rows.count;
    outputs_.push_back(out);
  }
}

TensorView Rescaled::input(Pass& pass, TensorView x) const {
  if (!reads_) return x;
  const TensorView out = pass.ops.scratch.allocate(x.dtype, x.shape);
  scale_columns(pass, x, pass.params.get(reads_.value), out);
  return out;
}

void Rescaled::scale_outputs(Pass& pass, TensorView y) const {
  for (const Outputs& own : outputs_) {
    const TensorView columns = y.columns(own.begin, own.count);
    scale_columns(pass, columns, pass.params.get(own.factors.value), columns);
  }
}

TensorView Rescaled::gradient(Pass& pass, TensorView dy) const {
  if (outputs_.empty()) return dy;
  const TensorView out = pass.ops.scratch.allocate(dy.dtype, dy.shape);
  ops::run(pass.ops, ops::CopyRows{.x = dy, .index = {}, .y = out});
  scale_outputs(pass, out);
  return out;
}

void Rescaled::backward_input(Pass& pass, TensorView dx) const {
  if (reads_) scale_columns(pass, dx, pass.params.get(reads_.value), dx);
}

void Rescaled::backward(Pass& pass, TensorView x, TensorView dy, const Recompute& dinput,
                        const Recompute& product) const {
  if (reads_) add_gradient(pass, reads_, x, dinput());
  if (outputs_.empty()) return;
  const TensorView sum = product();
  for (const Outputs& own : outputs_)
    add_gradient(pass, own.factors, sum.columns(own.begin, own.count), dy.columns(own.begin, own.count));
}

void Rescaled::scale(Pass& pass, TensorView w) const {
  backward_input(pass, w);  // by columns, as a gradient
  for (const Outputs& own : outputs_) {
    const TensorView rows = w.slice(own.begin, own.count);
    ops::run(
        pass.ops,
        ops::ScaleMatrix{
            .x = rows, .rows = pass.params.get(own.factors.value), .columns = {}, .bias = {}, .y = rows});
  }
}

}  // namespace stoa::nn
