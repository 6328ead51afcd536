// A rank of a layout, wired on a machine without memory.
#pragma once

#include "layout_run.h"
#include "ops/reference/reference_backend.h"

namespace stoa::layouts {

class PlannedRank {
 public:
  // Weights and activations of `type`; slots for so many microbatches.
  PlannedRank(const TestRun& run, const run::Layout& layout, int rank, DType type, std::int64_t microbatches);
  run::TrainingRank* operator->() { return &*rank_; }

 private:
  ops::ReferenceBackend kernels_;
  infer::Machine meta_;
  std::optional<run::TrainingRank> rank_;
};

}  // namespace stoa::layouts
