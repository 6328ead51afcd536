// What a configuration needs to be planned where it says less than a run needs.
#pragma once

#include <cstdint>

#include "cli/machine_factory.h"
#include "plan/cluster.h"
#include "train/run_config.h"
#include "train/training_plan.h"

namespace stoa::cli {

// What make_planning_machine() needs for a configuration; `given` goes before it.
MachineOptions planning_options(const train::RunConfig& config, MachineOptions given = {});

// Vocabulary size of the configured tokenizer; 0 without one, and a model without vocab_size gets the usual.
std::int64_t tokenizer_ids(train::RunConfig& config);
// As if the configuration asked for this precision of its linear layers.
void set_format(plan::Format format, train::RunConfig& config);
// A plan for questions that do not depend on the length of the run: if max_steps is not set, 1,000,000, so
// that the ends of the schedules are far away.
train::TrainingPlan plan_open_ended(const train::RunConfig& config, std::int64_t tokenizer_ids);

}  // namespace stoa::cli
