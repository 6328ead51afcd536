#include "optim/parameter_store.h"

namespace stoa::optim {

ParameterStore::ParameterStore(Arena& arena, const std::vector<nn::ParamSpec>& specs, nn::Precision precision,
                               bool masters)
    : arena_(&arena), specs_(&specs) {
  for (const auto& spec : specs) {
    const DType type = spec.is_matrix() ? precision.compute : precision.vectors();
    values_.push_back(arena.declare(MemoryCategory::kWeights, {spec.name, type, spec.shard.local}));
    const bool separate = masters && type != accumulation_type(type);
    masters_.push_back(separate
                           ? arena.declare(MemoryCategory::kMaster,
                                           {"master." + spec.name, accumulation_type(type), spec.shard.local})
                           : Arena::Id{});
  }
}

TensorView ParameterStore::get(nn::ParamId id) { return arena_->view(values_[id.index]); }

TensorView ParameterStore::master(nn::ParamId id) {
  return has_separate_master(id) ? arena_->view(masters_[id.index]) : get(id);
}

}  // namespace stoa::optim
