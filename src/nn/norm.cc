#include "nn/norm.h"

namespace stoa::nn {

Norm::Norm(std::string name, NormOptions options, std::int64_t width, const parallel::TensorPlace& place,
           bool partial)
    : name_(std::move(name)),
      options_(options),
      width_(width),
      place_(place),
      partial_(partial && place.split()) {}

void Norm::declare(ParamList& params) {
  const auto spec = [&](const char* suffix, InitKind init) {
    ParamSpec out;
    out.name = name_ + suffix;
    out.shard = ShardSpec::whole(out.name, Shape{width_});
    out.shard.pieces[0].shared = place_.split();
    out.shard.pieces[0].first_copy = place_.rank == 0;
    if (partial_) out.grad_partial_over.push_back(parallel::Axis::kTensor);
    out.init = {init, 0};
    out.decay = false;
    return out;
  };
  gamma_ = params.add(spec(".weight", InitKind::kOnes));
  if (options_.kind == ops::NormKind::kLayerNorm) beta_ = params.add(spec(".bias", InitKind::kZeros));
}

void Norm::forward(Pass& pass, TensorView x, TensorView y, TensorView stats) const {
  add_forward(pass, x, {}, {}, {}, y, stats);
}

void Norm::add_forward(Pass& pass, TensorView x, TensorView branch, ops::Dropout dropout, TensorView sum,
                       TensorView y, TensorView stats) const {
  ops::run(pass.ops, ops::NormForward{.kind = options_.kind,
                                      .epsilon = options_.epsilon,
                                      .x = x,
                                      .branch = branch,
                                      .dropout = dropout,
                                      .sum = sum,
                                      .gamma = pass.params.get(gamma_.value),
                                      .beta = beta_ ? pass.params.get(beta_.value) : TensorView(),
                                      .y = y,
                                      .stats = stats});
}

void Norm::backward(Pass& pass, const Backward& t) const {
  const GradTarget gamma = pass.grads->target(gamma_.grad);
  ops::NormBackward op{.kind = options_.kind,
                       .x = t.x,
                       .stats = t.stats,
                       .gamma = pass.params.get(gamma_.value),
                       .dy = t.dy,
                       .dresidual = t.dresidual,
                       .dx = t.dx,
                       .dropout = t.dropout,
                       .dbranch = t.dbranch,
                       .dgamma = gamma.tensor,
                       .dbeta = {},
                       .accumulate = gamma.accumulate};
  if (beta_) {
    const GradTarget beta = pass.grads->target(beta_.grad);
    require<InternalError>(beta.accumulate == gamma.accumulate, "gradients of '{}' are out of step", name_);
    op.dbeta = beta.tensor;
  }
  ops::run(pass.ops, op);
  pass.grads->notify(gamma_.grad);
  if (beta_) pass.grads->notify(beta_.grad);
}

}  // namespace stoa::nn
