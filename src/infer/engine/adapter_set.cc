#include "infer/engine/adapter_set.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "infer/loaded_chunk.h"
#include "model/adapter_plan.h"

namespace stoa::infer {
namespace {

bool only_adds_to_linear_layers(const model::ModelSpec& spec, const model::Chunk& chunk) {
  const model::PeftConfig& peft = spec.config.peft;
  if (peft.has_virtual_tokens() || peft.is_bottleneck() || spec.config.latent.multi_latent_attention)
    return false;
  return std::ranges::all_of(chunk.params().specs(), [&](const nn::ParamSpec& s) {
    return !s.trained ||
           (s.adapter && chunk.params().is_block(s.unit) && s.copies != parallel::Group::kExpertData);
  });
}

}  // namespace

AdapterSet::AdapterSet(LoadedChunk& base, const std::vector<model::ModelSpec>& adapted,
                       const nn::Precision& precision, std::int64_t tokens, std::int64_t positions,
                       const RankShare& share) {
  std::map<std::string, int> of_base;
  const std::vector<nn::ParamSpec>& shared = base.parameters().specs();
  for (std::size_t i = 0; i < shared.size(); ++i) of_base.emplace(shared[i].name, static_cast<int>(i));
  for (const model::ModelSpec& spec : adapted) {
    Adapter& a = *adapters_.emplace_back(std::make_unique<Adapter>());
    a.chunk = whole_chunk(spec, precision, tokens, positions, share);
    const std::vector<nn::ParamSpec>& all = a.chunk->params().specs();
    std::ranges::copy_if(all, std::back_inserter(a.specs), &nn::ParamSpec::trained);
    a.own = std::make_unique<optim::ParameterStore>(base.arena(), a.specs, precision);
    std::map<std::string, nn::ParamId> own;
    for (std::size_t i = 0; i < a.specs.size(); ++i) own[a.specs[i].name] = {static_cast<int>(i)};
    for (const nn::ParamSpec& s : all) {
      if (s.trained) {
        a.whole.places.emplace_back(a.own.get(), own.at(s.name));
        continue;
      }
      const auto found = of_base.find(s.name);
      require<InternalError>(found != of_base.end() &&
                                 shared[static_cast<std::size_t>(found->second)].shard.local == s.shard.local,
                             "the model has no '{}' as its adapter needs it", s.name);
      a.whole.places.emplace_back(&base.parameters(), nn::ParamId{found->second});
    }
    if (only_adds_to_linear_layers(spec, *a.chunk))
      a.joined = std::make_unique<nn::LayerAdapters>(
          spec.adapters,
          [store = a.own.get(), own](const std::string& name) { return store->get(own.at(name)); });
    else
      a.constants = std::make_unique<ChunkConstants>(base.arena(), *a.chunk);
  }
}

AdapterSet::~AdapterSet() = default;

void AdapterSet::bind(Machine& machine, Arena& arena, std::int64_t positions) {
  for (const auto& a : adapters_)
    if (a->constants) a->constants->fill(machine, arena, *a->chunk, positions);
}

}  // namespace stoa::infer
