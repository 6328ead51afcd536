// A training run as a command starts it: `stoa train`, `stoa finetune`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/rank_options.h"
#include "train/trainer_parts.h"

namespace stoa::cli {

struct Context;

struct TrainingJob {
  ConfigArguments config;
  MachineOptions machine;
  RankOptions ranks;
  std::string dump_steps;  // as 1 or 1-3,7
  train::TrainerParts::Dump dump;
  std::optional<std::int64_t> stop_after;
  std::string restore;  // a checkpoint of another run or program, from which this one continues; "": none

  // A distillation's: the teacher is run over the data, and nothing is trained; "": a training.
  std::string keep_logits;
  std::optional<std::int64_t> top_k;
  std::string kept_type;

  // --keep-logits and what belongs to it, --backend, --cuda, --threads, --instruction-set and those of
  // RankOptions. This must outlive `command`.
  void add_to(CLI::App& command);
  // The options of add_to() that were given, quoted for a shell.
  void append_options(std::vector<std::string>& command) const;
};

// What the first process does when data and configuration are known, before anything is trained.
using BeforeTraining = std::function<void(const train::RunConfig&, const train::RunInputs&)>;

// Launches the ranks and trains. `command`: the command line, for the run's files. Interrupted: a signal
// ended it.
void run_training(const TrainingJob& job, std::vector<std::string> command, Context& context,
                  const BeforeTraining& before = {});

}  // namespace stoa::cli
