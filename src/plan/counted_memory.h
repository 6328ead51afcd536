// The bytes of Stoa's own program in the parts that a prediction names, counted and not estimated.
#pragma once

#include <vector>

#include "plan/memory_estimate.h"
#include "plan/memory_model.h"

namespace stoa::plan {

struct CountedMemory {
  MemorySplit fullest;         // the pipeline rank that needs most; its logits are in the other parts
  std::vector<double> stages;  // bytes of each pipeline rank
};

// ConfigError if the point cannot run.
CountedMemory count_memory(MemoryModel& model, const MemoryPoint& point);

}  // namespace stoa::plan
