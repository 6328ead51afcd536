// How a rank of a run begins: with fresh weights, with those of another model, or where a checkpoint ended;
// and what the observers are reported it.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
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

// The weights of the model that objective.reference_model names, in place of the rank's own, until
// load_start() of a new run. Collective. ConfigError: another architecture, or adapters that change a model
// before they are trained.
void load_reference(const TrainerParts& parts, run::TrainingRank& rank);
// The weights with which a new run starts: fresh, or those of another model, and its adapter. Collective.
// Returns the model's tensors that were initialised since its files hold none.
std::set<std::string> load_start(const TrainerParts& parts, run::TrainingRank& rank);

// Called on rank 0. `gemm_tflops`: the machine's measured GEMM rate, 0 if unknown.
watch::RunStart describe_start(const TrainerParts& parts, run::TrainingRank& rank,
                               const RunBeginning& beginning, double gemm_tflops);

}  // namespace stoa::train
