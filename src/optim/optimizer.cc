#include "optim/optimizer.h"

#include <fmt/format.h>

namespace stoa::optim {

Optimizer::Optimizer(Arena& arena, ParameterStore& parameters, GradientStore& gradients,
                     const OptimConfig& config, nn::Precision precision, std::vector<CanonicalTensor> tensors)
    : arena_(&arena),
      parameters_(parameters),
      gradients_(gradients),
      config_(config),
      norm_(arena, parameters, gradients, std::move(tensors)) {
  if (config.name != OptimizerKind::kSgd)
    moment_names_ = {"adam.m", "adam.v"};
  else if (config.momentum != 0)
    moment_names_ = {"sgd.momentum"};
  const FlatLayout& layout = parameters.layout();
  for (const auto& name : moment_names_) {
    auto& row = moments_.emplace_back();
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const int bucket = static_cast<int>(b);
      const std::int64_t held = parameters.sharded() ? layout.share(bucket) : layout.bucket(bucket).elements;
      const int first = layout.bucket(bucket).members.front().parameter;
      row.push_back(
          arena.declare(MemoryCategory::kOptimizer,
                        {fmt::format("{}.{}", name, parameters.specs()[static_cast<std::size_t>(first)].name),
                         precision.vectors(), Shape{held}}));
    }
  }
}

TensorView Optimizer::moment(int which, nn::ParamId id) {
  const auto bucket = static_cast<std::size_t>(parameters_.layout().bucket_of(id.index));
  return parameters_.held_part(arena_->view(moments_[static_cast<std::size_t>(which)][bucket]), id);
}

void Optimizer::reset(ops::OpContext& ops) {
  for (auto& row : moments_)
    for (auto id : row) ops::run(ops, ops::FillZero{arena_->view(id)});
}

void Optimizer::step(ops::OpContext& ops, const ops::PrepareUpdate& prepare) {
  norm_.run(ops, prepare.state);
  ops::run(ops, prepare);
  parameters_.settle();
  for (std::size_t p = 0; p < parameters_.specs().size(); ++p)
    update(ops, {static_cast<int>(p)}, prepare.state);
  parameters_.publish();
}

void Optimizer::update(ops::OpContext& ops, nn::ParamId id, TensorView state) {
  const FlatRange held = parameters_.held_range(id);
  if (held.begin == held.end) return;
  const TensorView compute = parameters_.held_value(id);
  const double decay_factor = parameters_.specs()[id.index].decay ? 1.0 : 0.0;
  if (config_.name == OptimizerKind::kSgd) {
    ops::SgdUpdate sgd;
    sgd.master = parameters_.master(id);
    sgd.compute = compute;
    sgd.gradient = gradients_.gradient(id);
    if (!moments_.empty()) sgd.momentum = moment(0, id);
    sgd.state = state;
    sgd.momentum_factor = config_.momentum;
    sgd.decay_factor = decay_factor;
    ops::run(ops, sgd);
    return;
  }
  ops::AdamUpdate adam;
  adam.master = parameters_.master(id);
  adam.compute = compute;
  adam.gradient = gradients_.gradient(id);
  adam.m = moment(0, id);
  adam.v = moment(1, id);
  adam.state = state;
  adam.beta1 = config_.betas[0];
  adam.beta2 = config_.betas[1];
  adam.epsilon = config_.eps;
  adam.decoupled = config_.name == OptimizerKind::kAdamW;
  adam.decay_factor = decay_factor;
  ops::run(ops, adam);
}

void Optimizer::refresh_values(ops::OpContext& ops) {
  parameters_.settle();
  for (std::size_t p = 0; p < parameters_.specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    const FlatRange held = parameters_.held_range(id);
    if (const TensorView value = parameters_.held_value(id); value && held.begin < held.end)
      ops::run(ops, ops::Cast{parameters_.master(id), value});
  }
  parameters_.publish();
}

}  // namespace stoa::optim
