// The memory of a training rank, found by wiring and walking it on a machine without memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/memory_model.h"

namespace stoa::plan {

// One rank of a layout.
struct RankMemory {
  int rank = 0;
  int tensor = 0, context = 0, data = 0, stage = 0;  // its coordinates
  std::string layers;                                // what its stage holds, for people; empty on one stage
  MemoryTable categories{};
  std::size_t total = 0;  // of the device
};

struct MemoryPlan {
  MemoryTable categories{};          // of the worst rank
  MemoryDetail detail;               // their parts
  std::size_t total = 0;             // of the device; offloaded activations are the host's
  std::optional<std::size_t> limit;  // that the total is compared with: trainer.memory_limit_gb
  std::optional<ExpertLoads> loads;  // of the worst rank
  int ranks = 1;                     // of the layout
  std::string layout;                // for people
  std::vector<RankMemory> table;     // of ranks that may differ: every stage, the ends of the other axes
  std::int64_t parameters = 0;
  std::string machine;  // what the workspaces were counted for
};

// `meta`: a machine that counts; `options` as the trainer would use them. `layout`: for people.
MemoryPlan plan_memory(infer::Machine& meta, const run::TrainingOptions& options, std::string layout = {});

std::string to_text(const MemoryPlan& plan);
std::string to_json(const MemoryPlan& plan);

}  // namespace stoa::plan
