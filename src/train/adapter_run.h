// What a run of model.peft needs besides others: a model to start from, whose weights it leaves alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "run/training_rank.h"
#include "train/run_config.h"
#include "train/starting_point.h"

namespace stoa::train {

// Fills in what the model that the run starts from says of its adapter's names. ConfigError: there is no such
// model, or it is an adapter and the configuration trains none.
void complete_adapter_config(RunConfig& config, const StartingPoint& start);

// The adapter that a new run starts from; none: a fresh one.
std::optional<std::filesystem::path> start_adapter(const RunConfig& config, const StartingPoint& start);
// Loads the adapter that a new run starts from, if it does not start with a fresh one. Collective.
void load_start_adapter(const RunConfig& config, const StartingPoint& start, run::TrainingRank& rank);

// Proves that a run of adapters changes no weight of the model: their hash at the start and at the end stays
// in the run directory.
class BaseGuard {
 public:
  static constexpr const char* kFile = "base_tensors.json";

  // Collective, as check(). `directory`: of the run; written by rank 0.
  BaseGuard(run::TrainingRank& rank, std::filesystem::path directory);
  // NumericsError: a weight has changed.
  void check(std::int64_t step);

 private:
  void write(const char* text) const;

  run::TrainingRank& rank_;
  const std::filesystem::path path_;
  const std::uint64_t before_;
};

}  // namespace stoa::train
