#include "plan/counted_memory.h"

#include <algorithm>

namespace stoa::plan {
namespace {

MemorySplit split_of(const RankBytes& bytes) {
  MemorySplit out;
  for (std::size_t c = 0; c < bytes.categories.size(); ++c) {
    const auto amount = static_cast<double>(bytes.categories[c]);
    switch (static_cast<MemoryCategory>(c)) {
      case MemoryCategory::kWeights:
        out.weights += amount;
        break;
      case MemoryCategory::kGradients:
        out.gradients += amount;
        break;
      case MemoryCategory::kMaster:
      case MemoryCategory::kOptimizer:
        out.optimizer += amount;
        break;
      case MemoryCategory::kActivations:
      case MemoryCategory::kStash:
        out.activations += amount;
        break;
      case MemoryCategory::kOffloaded:
        break;
      default:
        out.working += amount;
    }
  }
  return out;
}

}  // namespace

CountedMemory count_memory(MemoryModel& model, const MemoryPoint& point) {
  CountedMemory out;
  const int stages = point.layout.pipeline_ranks();
  const int per_stage = point.layout.grid.size() / stages;  // pipeline is the slowest axis
  double offloaded = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const RankBytes bytes = model.rank(point, stage * per_stage);
    const MemorySplit split = split_of(bytes);
    offloaded = std::max(offloaded, static_cast<double>(bytes.offloaded));
    if (out.stages.empty() || split.sum() > out.fullest.sum()) out.fullest = split;
    out.stages.push_back(split.sum());
  }
  out.fullest.offloaded = offloaded;
  return out;
}

}  // namespace stoa::plan
