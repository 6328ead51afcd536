#include "optim/schedule_options.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::optim {
namespace {

ops::RateDecay kind_of(LrDecay decay) {
  switch (decay) {
    case LrDecay::kCosine:
      return ops::RateDecay::kCosine;
    case LrDecay::kLinear:
      return ops::RateDecay::kLinear;
    case LrDecay::kConstant:
      return ops::RateDecay::kConstant;
    case LrDecay::kInverseSquareRoot:
      return ops::RateDecay::kInverseSquareRoot;
    case LrDecay::kWsd:
      return ops::RateDecay::kWarmupStableDecay;
  }
  fail<InternalError>("unknown learning-rate schedule");
}

ops::StableDecay kind_of(WsdDecay decay) {
  switch (decay) {
    case WsdDecay::kExponential:
      return ops::StableDecay::kExponential;
    case WsdDecay::kLinear:
      return ops::StableDecay::kLinear;
    case WsdDecay::kCosine:
      return ops::StableDecay::kCosine;
    case WsdDecay::kMinusSqrt:
      return ops::StableDecay::kMinusSquareRoot;
  }
  fail<InternalError>("unknown final decay");
}

}  // namespace

ops::RateSchedule rate_schedule(const OptimConfig& config, const BatchPlan& plan, std::int64_t max_steps) {
  const SchedConfig& s = config.sched;
  const std::int64_t decay_steps =
      s.decay_steps.value_or(std::max<std::int64_t>(1, max_steps - s.constant_steps));
  const std::int64_t warmup_steps = s.warmup_ratio
                                        ? std::llround(*s.warmup_ratio * static_cast<double>(decay_steps))
                                        : s.warmup_steps.value_or(0);
  const bool cut = !s.decay_steps && s.constant_steps > 0;
  require<ConfigError>(
      warmup_steps <= decay_steps,
      "the warm-up takes {} steps, but the schedule ends after {}{}: add "
      "model.optim.sched.warmup_steps={}{}, or "
      "train longer",
      warmup_steps, decay_steps,
      cut ? fmt::format(" ({} steps without constant_steps {})", max_steps, s.constant_steps) : "",
      (cut ? max_steps : decay_steps) / 10, cut ? " model.optim.sched.constant_steps=0" : "");
  const auto samples = [&](std::int64_t steps) { return static_cast<double>(plan.samples_after(steps)); };
  ops::RateSchedule rate;
  rate.decay = kind_of(s.name);
  rate.stable_decay = kind_of(s.wsd_decay_style);
  rate.initial = s.warmup_init_lr;
  rate.peak = config.lr;
  rate.minimum = s.min_lr;
  rate.warmup_samples = samples(warmup_steps);
  rate.decay_samples = samples(decay_steps);
  const std::int64_t stable_decay_steps = s.wsd_decay_steps.value_or(decay_steps / 10);
  rate.stable_decay_samples =
      rate.decay_samples - samples(std::max<std::int64_t>(0, decay_steps - stable_decay_steps));
  return rate;
}

ops::WeightDecaySchedule weight_decay_schedule(const OptimConfig& config, const BatchPlan& plan,
                                               std::int64_t max_steps) {
  ops::WeightDecaySchedule decay;
  decay.start = config.start_weight_decay.value_or(config.weight_decay);
  decay.end = config.end_weight_decay.value_or(config.weight_decay);
  decay.samples = static_cast<double>(plan.samples_after(max_steps));
  switch (config.weight_decay_incr_style) {
    case WeightDecayStyle::kConstant:
      decay.ramp = ops::WeightDecayRamp::kConstant;
      break;
    case WeightDecayStyle::kLinear:
      decay.ramp = ops::WeightDecayRamp::kLinear;
      break;
    case WeightDecayStyle::kCosine:
      decay.ramp = ops::WeightDecayRamp::kCosine;
      break;
  }
  return decay;
}

}  // namespace stoa::optim
