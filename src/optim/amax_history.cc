#include "optim/amax_history.h"

#include "base/error.h"

namespace stoa::optim {
namespace {

constexpr auto kTensors = static_cast<std::int64_t>(nn::Fp8Tensor::kCount);

}  // namespace

AmaxHistory::AmaxHistory(Arena& arena, const nn::ParamList& params, const std::vector<nn::ParamId>& layers,
                         const AmaxHistoryOptions& options, DType type,
                         const parallel::ParallelContext& parallel)
    : arena_(&arena), parallel_(parallel), options_(options), layer_of_(params.specs().size(), -1) {
  for (const nn::ParamId weight : layers) {
    layer_of_[static_cast<std::size_t>(weight.index)] = static_cast<int>(names_.size());
    names_.push_back(spec(params.specs()[static_cast<std::size_t>(weight.index)], options.length, type).name);
  }
  const std::int64_t count = static_cast<std::int64_t>(layers.size()) * kTensors;
  const auto declare = [&](const char* name, const Shape& shape) {
    return arena.declare(MemoryCategory::kScalars, {name, type, shape});
  };
  history_ = declare("fp8.amax", {count, options.length});
  amax_ = declare("fp8.scaling", {count});
  seen_ = declare("fp8.seen", {count});
}

AmaxHistory::Place AmaxHistory::of(nn::ParamId weight, nn::Fp8Tensor tensor) {
  const int layer = layer_of_[static_cast<std::size_t>(weight.index)];
  require<InternalError>(layer >= 0, "parameter {} has no history of magnitudes", weight.index);
  const std::int64_t row = layer * kTensors + static_cast<std::int64_t>(tensor);
  return {arena_->view(amax_).slice(row, 1), arena_->view(seen_).slice(row, 1)};
}

void AmaxHistory::reset(ops::OpContext& ops) {
  for (const Arena::Id id : {history_, amax_, seen_}) ops::run(ops, ops::FillZero{arena_->view(id)});
}

void AmaxHistory::gather(ops::OpContext& ops) {
  for (const auto group : {parallel::Group::kTensor, parallel::Group::kDataContext})
    parallel_.along(group).all_reduce(arena_->view(seen_), comm::ReduceOp::kMax, ops.stream)->wait();
}

void AmaxHistory::update(ops::OpContext& ops, TensorView state) {
  ops::run(ops, ops::AmaxHistoryUpdate{.seen = arena_->view(seen_),
                                       .history = arena_->view(history_),
                                       .amax = arena_->view(amax_),
                                       .state = state,
                                       .most_recent = options_.most_recent});
}

TensorView AmaxHistory::history(std::size_t layer) {
  return arena_->view(history_).slice(static_cast<std::int64_t>(layer) * kTensors, kTensors);
}

TensorSpec AmaxHistory::spec(const nn::ParamSpec& matrix, std::int64_t length, DType type) {
  return {"fp8.amax/" + matrix.name.substr(0, matrix.name.rfind('.')), type, {kTensors, length}};
}

bool AmaxHistory::writes() const {
  return parallel_.along(parallel::Group::kTensor).rank() == 0 &&
         parallel_.along(parallel::Group::kDataContext).rank() == 0;
}

}  // namespace stoa::optim
