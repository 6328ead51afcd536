// The memory of a training rank, found by wiring and walking it on a machine without memory.
#pragma once

#include <string>
#include <vector>

#include "run/training_rank.h"

namespace stoa::plan {

struct MemoryPlan {
  MemoryTable categories{};
  std::size_t total = 0;
  std::int64_t parameters = 0;
  std::string machine;  // what the workspaces were counted for
};

// `meta`: a machine that counts; `options` as the trainer would use them.
MemoryPlan plan_memory(run::Machine& meta, const run::TrainingOptions& options);

std::string to_text(const MemoryPlan& plan);
std::string to_json(const MemoryPlan& plan);

}  // namespace stoa::plan
