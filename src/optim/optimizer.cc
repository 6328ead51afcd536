#include "optim/optimizer.h"

#include <algorithm>
#include <tuple>

namespace stoa::optim {

Optimizer::Optimizer(Arena& arena, ParameterStore& parameters, GradientStore& gradients,
                     const OptimConfig& config, nn::Precision precision)
    : arena_(&arena), parameters_(parameters), gradients_(gradients), config_(config) {
  if (config.name != OptimizerKind::kSgd)
    moment_names_ = {"adam.m", "adam.v"};
  else if (config.momentum != 0)
    moment_names_ = {"sgd.momentum"};
  const auto& specs = parameters.specs();
  for (const auto& name : moment_names_) {
    auto& row = moments_.emplace_back();
    for (const auto& spec : specs)
      row.push_back(arena.declare(MemoryCategory::kOptimizer,
                                  {name + "." + spec.name, precision.vectors(), spec.shard.local}));
  }
  for (std::size_t p = 0; p < specs.size(); ++p)
    for (const auto& piece : specs[p].shard.pieces)
      canonical_.push_back({piece.name, piece.begin, static_cast<int>(p), piece.memory_row, piece.count});
  std::sort(canonical_.begin(), canonical_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.name, a.begin) < std::tie(b.name, b.begin);
  });
}

TensorView Optimizer::moment(int which, nn::ParamId id) { return arena_->view(moments_[which][id.index]); }

void Optimizer::reset(ops::OpContext& ops) {
  for (auto& row : moments_)
    for (auto id : row) ops::run(ops, ops::FillZero{arena_->view(id)});
}

void Optimizer::step(ops::OpContext& ops, const ops::PrepareUpdate& prepare) {
  for (const auto& part : canonical_)
    ops::run(ops, ops::SumSquares{gradients_.gradient({part.parameter}).slice(part.row, part.count),
                                  prepare.state});
  ops::run(ops, prepare);
  for (std::size_t p = 0; p < parameters_.specs().size(); ++p)
    update(ops, {static_cast<int>(p)}, prepare.state);
}

void Optimizer::update(ops::OpContext& ops, nn::ParamId id, TensorView state) {
  const TensorView compute = parameters_.has_separate_master(id) ? parameters_.get(id) : TensorView{};
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
  for (std::size_t p = 0; p < parameters_.specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    if (parameters_.has_separate_master(id))
      ops::run(ops, ops::Cast{parameters_.master(id), parameters_.get(id)});
  }
}

}  // namespace stoa::optim
