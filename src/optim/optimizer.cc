#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoa::optim {
namespace {

constexpr const char* kMuonMomentum = "muon.momentum";

// Elements of a parameter in memory that are updated alike.
std::vector<ScaledRun> scaled_runs(const nn::ParamSpec& spec, FlatRange held) {
  const std::int64_t pitch = spec.shard.local.rank() >= 2 ? spec.shard.local.inner() : 1;
  std::vector<ScaledRun> out{{held, spec.scale(0)}};
  for (std::size_t p = 1; p < spec.shard.pieces.size(); ++p) {
    const nn::ParamScale scale = spec.scale(p);
    if (scale == out.back().scale) continue;
    const std::int64_t begin =
        std::clamp(spec.shard.pieces[p].memory_row * pitch, out.back().range.begin, held.end);
    out.back().range.end = begin;
    out.push_back({{begin, held.end}, scale});
  }
  std::erase_if(out, [](const ScaledRun& run) { return run.range.begin == run.range.end; });
  return out;
}

}  // namespace

Optimizer::Optimizer(Arena& arena, ParameterStore& parameters, GradientStore& gradients,
                     const OptimConfig& config, nn::Precision precision, std::vector<CanonicalTensor> tensors)
    : arena_(&arena),
      parameters_(parameters),
      gradients_(gradients),
      config_(config),
      norm_(arena, parameters, gradients, std::move(tensors)),
      muon_(parameters, gradients, config) {
  require<ConfigError>(
      config.name == OptimizerKind::kAdamW || config.name == OptimizerKind::kAdam ||
          std::all_of(parameters.specs().begin(), parameters.specs().end(),
                      [](const nn::ParamSpec& spec) { return spec.scales.empty(); }),
      "use_mup has rules for optim.name adamw and adam; give one of them, or leave out use_mup");
  if (config.name != OptimizerKind::kSgd)
    moment_names_ = {"adam.m", "adam.v"};
  else if (config.momentum != 0)
    moment_names_ = {"sgd.momentum"};
  if (config.name == OptimizerKind::kMuon) moment_names_.push_back(kMuonMomentum);
  const BucketLayout& layout = parameters.layout();
  for (std::size_t which = 0; which < moment_names_.size(); ++which) {
    auto& row = moments_.emplace_back();
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const int bucket = static_cast<int>(b);
      const std::int64_t held = parameters.sharded() ? layout.share(bucket) : layout.bucket(bucket).elements;
      const nn::ParamSpec& first =
          parameters.specs()[static_cast<std::size_t>(layout.bucket(bucket).members.front().parameter)];
      const ShardPiece& piece = first.shard.pieces.front();
      const bool has = first.trained && has_moment(static_cast<int>(which), piece.name, piece.global);
      row.push_back(has ? arena.declare(MemoryCategory::kOptimizer,
                                        {fmt::format("{}.{}", moment_names_[which], first.name),
                                         precision.vectors(), Shape{held}})
                        : Arena::Id{});
    }
  }
}

bool Optimizer::has_moment(int which, std::string_view canonical_name, const Shape& global) const {
  return (moment_names_[static_cast<std::size_t>(which)] == kMuonMomentum) ==
         takes_muon(config_, canonical_name, global);
}

TensorView Optimizer::moment(int which, nn::ParamId id) {
  const auto bucket = static_cast<std::size_t>(parameters_.layout().bucket_of(id.index));
  const Arena::Id memory = moments_[static_cast<std::size_t>(which)][bucket];
  return memory ? parameters_.held_part(arena_->view(memory), id) : TensorView();
}

void Optimizer::reset(ops::OpContext& ops) {
  for (auto& row : moments_)
    for (auto id : row)
      if (id) ops::run(ops, ops::FillZero{arena_->view(id)});
}

void Optimizer::step(ops::OpContext& ops, const ops::PrepareUpdate& prepare) {
  norm_.run(ops, prepare.state);
  ops::run(ops, prepare);
  parameters_.settle();
  for (std::size_t p = 0; p < parameters_.specs().size(); ++p)
    if (const nn::ParamId id{static_cast<int>(p)}; parameters_.specs()[p].trained && !muon_.updates(id))
      update(ops, id, prepare.state);
  const int momentum = static_cast<int>(moment_names_.size()) - 1;
  muon_.step(ops, prepare.state, [&](nn::ParamId id) { return moment(momentum, id); });
  parameters_.publish(false);
}

void Optimizer::update(ops::OpContext& ops, nn::ParamId id, TensorView state) {
  const FlatRange held = parameters_.held_range(id);
  if (held.begin == held.end) return;
  const nn::ParamSpec& spec = parameters_.specs()[static_cast<std::size_t>(id.index)];
  if (spec.update == nn::UpdateRule::kExpertLoad) {
    ops::run(ops, ops::ExpertBiasUpdate{.bias = parameters_.master(id),
                                        .excess = gradients_.gradient(id),
                                        .state = state,
                                        .rate = spec.update_rate});
    return;
  }
  if (config_.name == OptimizerKind::kSgd) return update_sgd(ops, id, state);
  for (const ScaledRun& run : scaled_runs(spec, held)) update_adam(ops, id, state, run);
}

void Optimizer::update_sgd(ops::OpContext& ops, nn::ParamId id, TensorView state) {
  ops::SgdUpdate sgd;
  sgd.master = parameters_.master(id);
  sgd.compute = parameters_.held_value(id);
  sgd.gradient = gradients_.gradient(id);
  if (!moments_.empty()) sgd.momentum = moment(0, id);
  sgd.state = state;
  sgd.momentum_factor = config_.momentum;
  sgd.decay_factor = parameters_.specs()[static_cast<std::size_t>(id.index)].decay ? 1.0 : 0.0;
  ops::run(ops, sgd);
}

void Optimizer::update_adam(ops::OpContext& ops, nn::ParamId id, TensorView state, const ScaledRun& run) {
  const nn::ParamSpec& spec = parameters_.specs()[static_cast<std::size_t>(id.index)];
  const FlatRange held = parameters_.held_range(id);
  const auto part = [&](TensorView whole) {
    if (!whole || run.range == held) return whole;
    return whole.reshape({whole.elements()})
        .slice(run.range.begin - held.begin, run.range.end - run.range.begin);
  };
  const nn::ParamScale& scale = run.scale;
  const double decay_factor = spec.decay ? 1.0 : 0.0;
  ops::AdamUpdate adam;
  adam.master = part(parameters_.master(id));
  adam.compute = part(parameters_.held_value(id));
  adam.gradient = part(gradients_.gradient(id));
  adam.m = part(moment(0, id));
  adam.v = part(moment(1, id));
  adam.state = state;
  adam.beta1 = config_.betas[0];
  adam.beta2 = config_.betas[1];
  adam.epsilon = config_.eps / scale.multiplier;
  adam.decoupled = config_.name != OptimizerKind::kAdam;
  adam.rate_factor = scale.rate * scale.multiplier;
  // Decay that joins the gradient is of the value over the factor, and the gradient has it as divisor too.
  adam.decay_factor =
      decay_factor / (adam.decoupled ? scale.multiplier : scale.multiplier * scale.multiplier);
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
  parameters_.publish(true);
}

}  // namespace stoa::optim
