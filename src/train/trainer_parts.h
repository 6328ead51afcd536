// What a rank of a training run is made from.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/console.h"
#include "eval/results/evaluation.h"
#include "infer/machine.h"
#include "train/launch.h"
#include "train/run_config.h"
#include "train/training_data.h"
#include "watch/run_observer.h"

namespace stoa::train {

struct TrainerParts {
  RunConfig config;
  std::string config_yaml;  // resolved
  std::string preset;       // see watch::RunStart
  std::vector<watch::ConfigChange> changes;
  std::shared_ptr<const RunInputs> inputs;
  Seat seat;
  infer::MakeMachine make_machine;
  Console& console;
  std::vector<watch::RunObserver*> observers;  // of rank 0
  std::stop_token stop;                        // SIGINT or SIGTERM: save and end
  std::vector<std::string> command;
  std::string version, commit;
  // Tensors of these steps are written to a directory (docs/tensor-dumps.md).
  struct Dump {
    std::vector<std::int64_t> steps;
    std::filesystem::path directory;
    std::vector<std::string> only;  // names with * and ?; empty: all
  };
  Dump dump{};
  // Ends after this step as a signal would; schedules stay those of the whole run.
  std::optional<std::int64_t> stop_after{};
  // Called on every rank when all is set up: from here on a stop is followed by a save.
  std::function<void()> on_training = [] {};
  std::chrono::system_clock::time_point began = std::chrono::system_clock::now();  // of the process
  // Of trainer.eval_tasks, for all ranks of a process; null: none.
  std::shared_ptr<const eval::PreparedEvaluation> tasks{};

  const token::Tokenizer* tokenizer() const { return inputs->tokenizer ? &*inputs->tokenizer : nullptr; }
  const TrainingPlan& plan() const { return inputs->data.plan; }
};

// What was done so far.
struct Progress {
  std::int64_t step = 0, samples = 0, tokens = 0;
};

}  // namespace stoa::train
