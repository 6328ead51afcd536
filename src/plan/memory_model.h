// Exact bytes of any rank of any layout, fast: ranks that differ only in how many buffers the schedule needs
// are instantiated once on the meta machine, with few microbatches, and the rest is arithmetic. All sizes of
// tensors are read from such an instance.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/training_rank.h"
#include "schedule/holdings.h"

namespace stoa::plan {

// What a layout would need of the device if memory for split experts were declared for other loads than
// model.moe_buffer_factor says: all other bytes are the same.
struct ExpertLoads {
  double factor = 1;      // of an even load, for which it is declared
  std::size_t even = 0;   // device bytes, for an even load alone
  std::size_t worst = 0;  // for all rows that the router can send to one rank
};

// What a search varies.
struct MemoryPoint {
  run::Layout layout;
  std::int64_t micro_batch = 1, microbatches = 1;
  model::RecomputeConfig recompute;
};

struct RankBytes {
  MemoryTable categories{};
  std::size_t total = 0;  // on the device
  int rank = 0;
  std::size_t offloaded = 0;  // to the host
};

// The parts of a rank's categories.
struct MemoryDetail {
  std::vector<std::pair<std::string, std::size_t>>
      saved;                 // activations of all microbatches in flight, by module
  std::size_t places = 0;    // part of kActivations: buffers for offloading
  int in_flight = 0;         // most microbatches of one chunk whose activations are held
  std::size_t pipeline = 0;  // part of kCommunication: buffers for transfers between stages
  std::size_t gathered = 0;  // the rest of kCommunication: gathered weights and gradients
  std::string fullest;       // the operation at which scratch use is highest
};

class MemoryModel {
 public:
  // `base`: everything that a point does not set; text samples are not planned for (sample_context 0). `meta`
  // must outlive this.
  MemoryModel(infer::Machine& meta, run::TrainingOptions base);

  // ConfigError if the point cannot run.
  RankBytes rank(const MemoryPoint& point, int rank);
  // The pipeline rank that needs most. In each stage only the lowest rank is counted: uneven parts are larger
  // there. `offloaded` is the maximum over all stages.
  RankBytes worst(const MemoryPoint& point);
  // Instantiates the rank.
  MemoryDetail detail(const MemoryPoint& point, int rank);
  // None where no rank gets rows of others, or where all that can come is declared for (FP8).
  std::optional<ExpertLoads> expert_loads(const MemoryPoint& point, int rank);
  run::TrainingOptions options(const MemoryPoint& point) const;
  const run::Layout& layout() const { return base_.layout; }  // of the configuration itself
  std::size_t wired() const { return wired_; }                // ranks instantiated so far

 private:
  // A rank's fixed memory, whatever it holds at once.
  struct Stores {  // weights, gradients, optimizer: independent of the microbatch and of recomputation
    MemoryTable categories{};
  };
  struct Slots {  // for one microbatch, and for one buffer
    struct Chunk {
      std::size_t activations = 0, stash = 0;
      std::vector<std::size_t> blocks;  // part of activations: what each block keeps
    };
    std::vector<Chunk> chunks;  // local ones
    std::size_t boundary = 0, batch = 0, losses = 0;
  };
  struct Keys {
    std::string stores, slots, scratch;
  };
  using HoldingsOfStages = std::vector<schedule::Holdings>;

  Keys keys(const run::TrainingOptions& o, const std::vector<run::PlacedChunk>& placed, int rank,
            bool split) const;
  void wire(const run::TrainingOptions& o, int rank, const Keys& keys);
  RankBytes rank(const run::TrainingOptions& o, const std::vector<run::PlacedChunk>& placed,
                 const HoldingsOfStages& holdings, int rank);
  // For many microbatches: those of the smallest number from which on the holdings do not grow.
  std::shared_ptr<const HoldingsOfStages> holdings(const run::TrainingOptions& o);

  infer::Machine& meta_;
  const run::TrainingOptions base_;
  bool uniform_ = true;              // all layers need equal memory
  std::int64_t first_trained_ = -1;  // model::first_trained_layer()
  std::map<std::string, Stores> stores_;
  std::map<std::string, Slots> slots_;
  std::map<std::string, std::size_t> scratch_;
  std::map<std::string, std::shared_ptr<const HoldingsOfStages>> holdings_;
  std::size_t wired_ = 0;
};

}  // namespace stoa::plan
