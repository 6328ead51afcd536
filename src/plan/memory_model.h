// Exact bytes of any rank of any layout, fast: ranks that differ in nothing but what a schedule makes them
// hold are wired once on the meta machine, with few microbatches; the rest is counting. Nothing here knows
// how large a tensor is: every size is read from a wired rank.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/training_rank.h"
#include "schedule/holdings.h"

namespace stoa::plan {

// What a search varies.
struct MemoryPoint {
  run::Layout layout;
  std::int64_t micro_batch = 1, microbatches = 1;
  model::RecomputeConfig recompute;
};

struct RankBytes {
  MemoryTable categories{};
  std::size_t total = 0;  // of the device
  int rank = 0;
  std::size_t offloaded = 0;  // to the host
};

// What a rank's categories are made of.
struct MemoryDetail {
  std::vector<std::pair<std::string, std::size_t>>
      saved;                 // activations of all microbatches in flight, by module
  std::size_t places = 0;    // of kActivations: what is offloaded passes through them
  int in_flight = 0;         // most microbatches of one chunk whose activations are held
  std::size_t pipeline = 0;  // buffers of what comes from and goes to other stages; of kCommunication
  std::size_t gathered = 0;  // the rest of kCommunication: weights and gradients on their way
  std::string fullest;       // operation at which scratch memory takes most
};

class MemoryModel {
 public:
  // `base`: all but what a point says; samples of text are not planned for (sample_context 0). `meta`
  // outlives this.
  MemoryModel(infer::Machine& meta, run::TrainingOptions base);

  // ConfigError where the point cannot run.
  RankBytes rank(const MemoryPoint& point, int rank);
  // The rank that needs most, of the first tensor- and data-parallel ones: parts are dealt out longest first.
  // `offloaded` is the most of any of them.
  RankBytes worst(const MemoryPoint& point);
  // Wires the rank.
  MemoryDetail detail(const MemoryPoint& point, int rank);
  run::TrainingOptions options(const MemoryPoint& point) const;
  std::size_t wired() const { return wired_; }  // ranks, so far

 private:
  // Of a rank, whatever it holds at once.
  struct Stores {  // weights, gradients, optimizer: independent of the microbatch and of recomputation
    MemoryTable categories{};
  };
  struct Slots {  // of one microbatch and one buffer
    struct Chunk {
      std::size_t activations = 0, stash = 0;
      std::vector<std::size_t> blocks;  // of the activations: what each block keeps
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
  // Of schedules of many microbatches: those of fewer, from where they hold no more.
  std::shared_ptr<const HoldingsOfStages> holdings(const run::TrainingOptions& o);

  infer::Machine& meta_;
  const run::TrainingOptions base_;
  bool uniform_ = true;  // layers need equal memory
  std::map<std::string, Stores> stores_;
  std::map<std::string, Slots> slots_;
  std::map<std::string, std::size_t> scratch_;
  std::map<std::string, std::shared_ptr<const HoldingsOfStages>> holdings_;
  std::size_t wired_ = 0;
};

}  // namespace stoa::plan
