// The difference of two models as an adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "infer/model_files.h"

namespace stoa::infer {

struct ExtractReport {
  std::int64_t modules = 0;  // that differ
  double kept = 1;           // of the difference of their matrices: root mean square of what the adapter has
  std::string worst;         // the module of which least is kept
  double worst_kept = 1;
  std::vector<std::string> others;  // tensors that differ and belong to no linear layer: not in the adapter
};

// Writes the adapter of `base` that comes nearest to `tuned`, of this rank, in PEFT's form: the truncated
// singular value decomposition of every linear layer's difference. ConfigError: models of different shapes, a
// rank above that of a matrix, models that do not differ. `output` appears complete or not at all.
ExtractReport extract_adapter(const ModelFiles& tuned, const ModelFiles& base, std::int64_t rank,
                              const std::filesystem::path& output, WorkerPool& pool);

}  // namespace stoa::infer
