// Adapters that share the weights of one loaded model; each request chooses one. Those that only add to
// linear layers of blocks are computed in one pass with the model itself and each other (nn/adapted_rows.h).
// Others (virtual tokens, experts, latent attention, layers trained in full) have a pass of their own over
// the shared weights.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/arena.h"
#include "infer/constants.h"
#include "infer/machine.h"
#include "infer/rank_share.h"
#include "model/chunk.h"
#include "nn/adapted_rows.h"
#include "nn/param.h"
#include "optim/parameter_store.h"

namespace stoa::infer {

class LoadedChunk;

class AdapterSet {
 public:
  // Declares what `adapted`, the model of `base` with each adapter, have besides it. `tokens`, `positions`,
  // `share`: as of the base.
  AdapterSet(LoadedChunk& base, const std::vector<model::ModelSpec>& adapted, const nn::Precision& precision,
             std::int64_t tokens, std::int64_t positions, const RankShare& share = {});
  ~AdapterSet();
  // After the arena was committed.
  void bind(Machine& machine, Arena& arena, std::int64_t positions);

  // Adapters are numbered from 1. The parameters that are the adapter's own, to be written.
  optim::ParameterStore& own(int adapter) { return *at(adapter).own; }
  // What a pass with the model and others needs; null: it has passes of its own.
  nn::LayerAdapters* joined(int adapter) { return at(adapter).joined.get(); }
  const model::Chunk& chunk(int adapter) { return *at(adapter).chunk; }
  nn::ParamAccess& parameters(int adapter) { return at(adapter).whole; }

 private:
  // The base's parameters and the adapter's own.
  struct WholeParameters final : nn::ParamAccess {
    TensorView get(nn::ParamId id) override {
      const auto& [store, own] = places[static_cast<std::size_t>(id.index)];
      return store->get(own);
    }
    std::vector<std::pair<optim::ParameterStore*, nn::ParamId>> places;
  };
  struct Adapter {
    std::unique_ptr<model::Chunk> chunk;
    std::vector<nn::ParamSpec> specs;  // of what is its own
    std::unique_ptr<optim::ParameterStore> own;
    WholeParameters whole;
    std::unique_ptr<nn::LayerAdapters> joined;
    std::unique_ptr<ChunkConstants> constants;  // of one with passes of its own
  };
  Adapter& at(int adapter) { return *adapters_[static_cast<std::size_t>(adapter - 1)]; }

  std::vector<std::unique_ptr<Adapter>> adapters_;
};

}  // namespace stoa::infer
