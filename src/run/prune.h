// A smaller model made of parts of a larger one: layers, neurons of the feed-forward layers, heads and
// channels of the stream that matter least on calibration texts are left out (Muralidharan et al. 2024,
// Minitron; for layers Men et al. 2024, ShortGPT). Tuned or distilled afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "ckpt/export_model.h"
#include "infer/model_files.h"
#include "run/importance.h"

namespace stoa::run {

// What is to be left; none: all.
struct PrunedSizes {
  std::optional<std::int64_t> layers;
  std::vector<std::int64_t> kept_layers;  // these instead of the most important ones; ascending
  std::optional<std::int64_t> ffn;        // neurons of every feed-forward layer
  std::optional<std::int64_t> heads;      // of queries, whole groups of them
  std::optional<std::int64_t> hidden;

  // Whether importance must be measured.
  bool measured() const { return layers || ffn || heads || hidden; }
};

// Indices of the larger model, ascending.
struct KeptParts {
  std::vector<std::int64_t> layers, hidden;
  std::vector<std::vector<std::int64_t>> ffn, groups;  // by kept layer
};

// ConfigError: sizes that the model does not have, or parts that cannot be left out: layers of a model whose
// layers differ by their numbers, neurons of experts, heads of latent or linear attention.
KeptParts choose_parts(const model::ModelSpec& spec, const PrunedSizes& sizes, const Calibration& importance);

// Writes the parts as a model directory of the same family. ConfigError: the family has no such sizes.
ckpt::ExportResult write_pruned(const infer::ModelFiles& files, const KeptParts& parts, DType type,
                                const std::filesystem::path& output, const ckpt::ExportProgress& progress);

}  // namespace stoa::run
