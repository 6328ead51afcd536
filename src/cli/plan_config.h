// CONFIG of the plan commands: a configuration of Stoa or of NeMo (launcher, 1.x, 2.x), a preset, a Hugging
// Face config.json or a directory that has one, or the command line of Megatron-LM.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "train/run_config.h"
#include "train/training_plan.h"

namespace stoa::cli {

struct PlanConfigArguments {
  std::string config;  // empty with from_megatron
  std::vector<std::string> overrides;
  std::string from_megatron;
  bool all_ignored = false;  // list every key that has no effect, not their number

  void add_to(CLI::App& command);
};

struct PlanConfig {
  train::RunConfig run;
  std::vector<std::string> ignored;  // keys that change nothing here, each with its reason
  std::vector<std::string> notes;
};

// ConfigError, UsageError: what cannot be read, honoured or understood. `ranks`: that train together, where
// known.
PlanConfig read_plan_config(const PlanConfigArguments& arguments, std::optional<std::int64_t> ranks = {});
// The same; what has no effect and what was assumed is reported on `console`.
train::RunConfig load_plan_config(const PlanConfigArguments& arguments, Console& console,
                                  std::optional<std::int64_t> ranks = {});

// Ids of the configured tokenizer. Without one 0, and the model gets the usual vocabulary where it has none.
std::int64_t tokenizer_ids(train::RunConfig& config);
// What is not trained to its end: where the configuration says nothing of its steps, the end of the schedules
// is out of sight.
train::TrainingPlan plan_open_ended(const train::RunConfig& config, std::int64_t tokenizer_ids);

}  // namespace stoa::cli
