// CONFIG of the plan commands: a configuration of Stoa or of NeMo (launcher, 1.x, 2.x), a preset, a Hugging
// Face config.json or a directory that has one, or the command line of Megatron-LM.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/machine_factory.h"
#include "train/run_config.h"
#include "train/training_plan.h"

namespace stoa::cli {

struct PlanConfigArguments {
  std::string config;  // empty with from_megatron
  std::vector<std::string> overrides;
  std::string from_megatron;        // arguments, or the path of a script or of a YAML file
  std::vector<std::string> ignore;  // arguments of it that are left out
  bool all_ignored = false;         // list every key that has no effect, not their number

  void add_to(CLI::App& command);
};

struct PlanConfig {
  train::RunConfig run;
  std::vector<std::string> ignored;  // keys without effect, each with its reason
  std::vector<std::string> notes;
};

// ConfigError, UsageError: what cannot be read, honoured or understood. `ranks`: how many train together, if
// known.
PlanConfig read_plan_config(const PlanConfigArguments& arguments, std::optional<std::int64_t> ranks = {});
// The same; keys without effect and assumptions are reported on `console`.
train::RunConfig load_plan_config(const PlanConfigArguments& arguments, Console& console,
                                  std::optional<std::int64_t> ranks = {});

// What make_planning_machine() needs for a configuration; `given` goes before it.
MachineOptions planning_options(const train::RunConfig& config, MachineOptions given = {});

// Vocabulary size of the configured tokenizer; 0 without one, and a model without vocab_size gets the usual.
std::int64_t tokenizer_ids(train::RunConfig& config);
// A plan for questions that do not depend on the length of the run: if max_steps is not set, 1,000,000, so
// that the ends of the schedules are far away.
train::TrainingPlan plan_open_ended(const train::RunConfig& config, std::int64_t tokenizer_ids);

}  // namespace stoa::cli
