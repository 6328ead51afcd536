#include "nn/linear.h"

namespace stoa::nn {

Linear::Linear(LinearOptions options) : options_(std::move(options)) {
  for (const auto& piece : options_.pieces) outputs_ += piece.outputs;
}

void Linear::declare(ParamList& params) {
  const auto spec = [&](const char* suffix, bool matrix) {
    ParamSpec out;
    out.name = options_.name + suffix;
    out.shard.local = matrix ? Shape{outputs_, options_.inputs} : Shape{outputs_};
    std::int64_t row = 0;
    for (const auto& piece : options_.pieces) {
      ShardPiece part;
      part.name = piece.name + suffix;
      part.global = matrix ? Shape{piece.outputs, options_.inputs} : Shape{piece.outputs};
      part.count = piece.outputs;
      part.memory_row = row;
      part.column_count = matrix ? options_.inputs : 0;
      row += piece.outputs;
      out.shard.pieces.push_back(std::move(part));
    }
    out.init = {matrix ? InitKind::kNormal : InitKind::kZeros, options_.deviation};
    out.decay = matrix;
    return out;
  };
  weight_ = params.add(spec(".weight", true));
  if (options_.bias) bias_ = params.add(spec(".bias", false));
}

void Linear::forward(Pass& pass, TensorView x, TensorView y) const {
  ops::run(pass.ops, ops::LinearForward{.x = x,
                                        .w = pass.params.get(weight_.value),
                                        .bias = bias_ ? pass.params.get(bias_.value) : TensorView(),
                                        .y = y});
}

void Linear::backward_input(Pass& pass, TensorView dy, TensorView dx) const {
  ops::run(pass.ops, ops::LinearBackwardInput{.dy = dy, .w = pass.params.get(weight_.value), .dx = dx});
}

void Linear::backward_weight(Pass& pass, TensorView x, TensorView dy) const {
  const GradTarget weight = pass.grads->target(weight_.grad);
  ops::LinearBackwardWeight op{
      .x = x, .dy = dy, .dw = weight.tensor, .dbias = {}, .accumulate = weight.accumulate};
  if (bias_) {
    const GradTarget bias = pass.grads->target(bias_.grad);
    require<InternalError>(bias.accumulate == weight.accumulate, "gradients of '{}' are out of step",
                           options_.name);
    op.dbias = bias.tensor;
  }
  ops::run(pass.ops, op);
  pass.grads->notify(weight_.grad);
  if (bias_) pass.grads->notify(bias_.grad);
}

}  // namespace stoa::nn
