#include "nn/norm.h"

#include <algorithm>

#include "nn/discarded_gradient.h"

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
    if (partial_) out.grad_partial_over.push_back(parallel::Group::kTensor);
    out.init = {init, 0};
    out.decay = false;
    return out;
  };
  if (!options_.weights) return;
  gamma_ = params.add(spec(".weight", InitKind::kOnes));
  if (options_.kind == ops::NormKind::kLayerNorm && options_.bias)
    beta_ = params.add(spec(".bias", InitKind::kZeros));
}

void Norm::forward(Pass& pass, TensorView x, TensorView y, TensorView stats) const {
  add_forward(pass, x, {}, {}, {}, y, stats);
}

void Norm::add_forward(Pass& pass, TensorView x, TensorView branch, const DropoutRows& dropout,
                       TensorView sum, TensorView y, TensorView stats) const {
  const std::int64_t per_row = stats ? stats.rows() / std::max<std::int64_t>(1, x.rows()) : 0;
  dropout.each(x.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    const auto rows = [&](TensorView t) { return t ? t.slice(begin, count) : t; };
    ops::run(pass.ops,
             ops::NormForward{.kind = options_.kind,
                              .epsilon = options_.epsilon,
                              .x = rows(x),
                              .branch = rows(branch),
                              .dropout = run,
                              .sum = rows(sum),
                              .gamma = gamma_ ? pass.params.get(gamma_.value) : TensorView(),
                              .beta = beta_ ? pass.params.get(beta_.value) : TensorView(),
                              .y = rows(y),
                              .stats = stats ? stats.slice(begin * per_row, count * per_row) : stats});
  });
}

void Norm::backward(Pass& pass, const Backward& t) const {
  Scratch::Frame frame(pass.ops.scratch);
  GradTarget beta{{}, false}, gamma = beta;
  if (beta_.trained()) beta = pass.grads->target(beta_.grad);
  if (gamma_) gamma = target_or_discarded(pass, gamma_, beta.accumulate);
  if (!beta_.trained()) beta.accumulate = gamma.accumulate;
  require<InternalError>(beta.accumulate == gamma.accumulate, "gradients of '{}' are out of step", name_);
  const std::int64_t per_row = t.stats.rows() / std::max<std::int64_t>(1, t.x.rows());
  t.dropout.each(t.x.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    const auto rows = [&](TensorView x) { return x ? x.slice(begin, count) : x; };
    ops::run(pass.ops, ops::NormBackward{.kind = options_.kind,
                                         .x = rows(t.x),
                                         .stats = t.stats.slice(begin * per_row, count * per_row),
                                         .gamma = gamma_ ? pass.params.get(gamma_.value) : TensorView(),
                                         .dy = rows(t.dy),
                                         .dresidual = rows(t.dresidual),
                                         .dx = rows(t.dx),
                                         .dropout = run,
                                         .dbranch = rows(t.dbranch),
                                         .dgamma = gamma.tensor,
                                         .dbeta = beta.tensor,
                                         .accumulate = gamma.accumulate || begin > 0});
  });
  notify_trained(pass, gamma_);
  notify_trained(pass, beta_);
}

}  // namespace stoa::nn
