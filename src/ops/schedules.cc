#include "ops/schedules.h"

#include "ops/schedule_formulas.h"

namespace stoa::ops {

double learning_rate(const RateSchedule& schedule, double samples) { return rate_at(schedule, samples); }

double weight_decay(const WeightDecaySchedule& schedule, double samples) {
  return decay_at(schedule, samples);
}

}  // namespace stoa::ops
