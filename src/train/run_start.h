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
  std::optional<std::filesystem::path> model;  // whose weights, or whose run, this one resumes from
  std::string resumed_from;                    // name of the checkpoint; "": a run that begins
  std::optional<double> best_loss;             // of validation
  std::int64_t skipped_steps = 0;
};

// Writes the rank's weights and state. Every rank calls it. ConfigError where the checkpoint was trained
// otherwise than the configuration asks in what cannot change.
RunBeginning begin_run(const TrainerParts& parts, run::TrainingRank& rank);

// Of rank 0. `gemm_tflops`: measured; 0: not.
watch::RunStart describe_start(const TrainerParts& parts, run::TrainingRank& rank,
                               const RunBeginning& beginning, double gemm_tflops);

}  // namespace stoa::train
