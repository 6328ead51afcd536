// From the configuration's schedules, counted in steps, to the step's, clocked in samples.
#pragma once

#include "ops/optimizer.h"
#include "optim/batch_plan.h"
#include "optim/config.h"

namespace stoa::optim {

// `max_steps` ends the run; with a batch ramp, steps become samples through the plan (never steps x global
// batch).
ops::RateSchedule rate_schedule(const OptimConfig& config, const BatchPlan& plan, std::int64_t max_steps);
ops::WeightDecaySchedule weight_decay_schedule(const OptimConfig& config, const BatchPlan& plan,
                                               std::int64_t max_steps);

}  // namespace stoa::optim
