// From a configuration to what a rank is wired from. Trainer, memory plan and benchmarks share it.
#pragma once

#include "optim/batch_plan.h"
#include "run/training_rank.h"
#include "train/run_config.h"

namespace stoa::train {

struct TrainingPlan {
  run::TrainingOptions options;
  optim::BatchPlan batch;
  std::int64_t steps = 0;  // where the schedules end
};

// Floating-point operations of all steps of a plan (train/step_flops.h).
double executed_flops(const TrainingPlan& plan);

// Stored and compute types of a precision.
nn::Precision precision_of(Precision precision);

// What a run has done when it is resumed.
struct DoneSteps {
  std::int64_t steps = 0, samples = 0;
};

// `tokenizer_vocabulary`: 0 when there is no tokenizer. `epoch_samples`: samples of one epoch, for
// max_epochs. ConfigError when nothing says where the run ends and `steps` is not given, and when the
// schedule cannot do a batch of the ramp.
TrainingPlan plan_training(const RunConfig& config, std::int64_t tokenizer_vocabulary,
                           std::optional<std::int64_t> steps = std::nullopt, std::int64_t epoch_samples = 0,
                           DoneSteps done = {});

}  // namespace stoa::train
