// How a rank of a run begins: with fresh weights, with those of another model, or where a checkpoint ended;
// and what the observers are reported it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "run/training_rank.h"
#include "train/trainer_parts.h"

namespace stoa::train {

struct RunBeginning {
  Progress done;
  std::optional<std::filesystem::path> model;  // that the weights were read from; none: fresh weights
  std::string resumed_from;                    // name of the checkpoint; "" for a new run
  std::optional<double> best_loss;             // of validation
  std::int64_t skipped_steps = 0;
};

// Writes the rank's weights and state. Every rank calls it. ConfigError when the configuration
// changes something that a resumed run must keep.
RunBeginning begin_run(const TrainerParts& parts, run::TrainingRank& rank);

// Called on rank 0. `gemm_tflops`: the machine's measured GEMM rate, 0 if unknown.
watch::RunStart describe_start(const TrainerParts& parts, run::TrainingRank& rank,
                               const RunBeginning& beginning, double gemm_tflops);

}  // namespace stoa::train
