#include "optim/amax_history.h"

#include "base/error.h"

namespace stoa::optim {
namespace {

constexpr auto kTensors = static_cast<std::int64_t>(nn::Fp8Tensor::kCount);

}  // namespace

AmaxHistory::AmaxHistory(Arena& arena, const nn::ParamList& params, const std::vector<nn::ParamId>& weights,
                         const AmaxHistoryOptions& options, DType type,
                         const parallel::ParallelContext& parallel)
    : arena_(&arena), parallel_(parallel), options_(options), by_param_(params.specs().size()) {
  for (const nn::ParamId weight : weights) {
    const nn::ParamSpec& matrices = params.specs()[static_cast<std::size_t>(weight.index)];
    Layers& layers = by_param_[static_cast<std::size_t>(weight.index)];
    layers.holders = matrices.copies == parallel::Group::kExpertData ? 1 : 0;
    std::int64_t& known = holders_[layers.holders].layers;
    layers.first = known;
    for (const TensorSpec& spec : specs(matrices, options.length, type)) {
      names_.push_back(spec.name);
      by_name_.push_back({layers.holders, known++, 1});
    }
    layers.count = known - layers.first;
  }
  for (Holders& h : holders_) {
    if (h.layers == 0) continue;
    const auto declare = [&](const char* what, const Shape& shape) {
      return arena.declare(MemoryCategory::kScalars, {std::string("fp8.") + what + h.name, type, shape});
    };
    h.history = declare("amax", {h.layers * kTensors, options.length});
    h.amax = declare("scaling", {h.layers * kTensors});
    h.seen = declare("seen", {h.layers * kTensors});
  }
}

AmaxHistory::Place AmaxHistory::of(nn::ParamId weight, nn::Fp8Tensor tensor) {
  const Layers& layers = by_param_[static_cast<std::size_t>(weight.index)];
  require<InternalError>(layers.count > 0, "parameter {} has no history of magnitudes", weight.index);
  const auto of_tensor = [&](Arena::Id id) {
    return arena_->view(id)
        .slice(layers.first * kTensors, layers.count * kTensors)
        .reshape({layers.count, kTensors})
        .columns(static_cast<std::int64_t>(tensor), 1)
        .reshape({layers.count});
  };
  const Holders& holders = holders_[layers.holders];
  return {of_tensor(holders.amax), of_tensor(holders.seen)};
}

void AmaxHistory::reset(ops::OpContext& ops) {
  for_each_holders([&](const Holders& h) {
    for (const Arena::Id id : {h.history, h.amax, h.seen}) ops::run(ops, ops::FillZero{arena_->view(id)});
  });
}

void AmaxHistory::gather(ops::OpContext& ops) {
  for_each_holders([&](const Holders& h) {
    for (const auto group : {h.parts, h.copies})
      parallel_.along(group).all_reduce(arena_->view(h.seen), comm::ReduceOp::kMax, ops.stream)->wait();
  });
}

void AmaxHistory::update(ops::OpContext& ops, TensorView state) {
  for_each_holders([&](const Holders& h) {
    ops::run(ops, ops::AmaxHistoryUpdate{.seen = arena_->view(h.seen),
                                         .history = arena_->view(h.history),
                                         .amax = arena_->view(h.amax),
                                         .state = state,
                                         .most_recent = options_.most_recent});
  });
}

TensorView AmaxHistory::history(std::size_t layer) {
  const Layers& place = by_name_[layer];
  return arena_->view(holders_[place.holders].history).slice(place.first * kTensors, kTensors);
}

std::vector<TensorSpec> AmaxHistory::specs(const nn::ParamSpec& matrices, std::int64_t length, DType type) {
  std::vector<TensorSpec> specs;
  for (const std::string& layer : matrices.products)
    specs.push_back({"fp8.amax/" + layer, type, {kTensors, length}});
  return specs;
}

bool AmaxHistory::writes(std::size_t layer) const {
  const Holders& h = holders_[by_name_[layer].holders];
  return parallel_.along(h.parts).rank() == 0 && parallel_.along(h.copies).rank() == 0;
}

}  // namespace stoa::optim
