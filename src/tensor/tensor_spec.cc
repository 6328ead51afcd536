#include "tensor/tensor_spec.h"

namespace stoa {

std::string_view name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kWeights:
      return "weights";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kMaster:
      return "master weights";
    case MemoryCategory::kOptimizer:
      return "optimizer state";
    case MemoryCategory::kActivations:
      return "saved activations";
    case MemoryCategory::kStash:
      return "weight-gradient stash";
    case MemoryCategory::kScratch:
      return "scratch";
    case MemoryCategory::kBatch:
      return "batch";
    case MemoryCategory::kCommunication:
      return "communication";
    case MemoryCategory::kKvCache:
      return "key-value cache";
    case MemoryCategory::kScalars:
      return "scalars";
    case MemoryCategory::kTeacher:
      return "teacher";
    case MemoryCategory::kOffloaded:
      return "offloaded activations";
    case MemoryCategory::kCount:
      break;
  }
  return "?";
}

}  // namespace stoa
