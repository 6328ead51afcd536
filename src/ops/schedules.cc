#include "ops/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace stoa::ops {

namespace {

double cosine(double r) { return (std::cos(std::numbers::pi * r) + 1) / 2; }

double stable_decay(const RateSchedule& s, double samples) {
  const double begin = s.decay_samples - s.stable_decay_samples;
  if (samples <= begin) return 1;
  const double q = (samples - begin) / s.stable_decay_samples;
  switch (s.stable_decay) {
    case StableDecay::kExponential:
      return 2 * std::pow(0.5, q) - 1;
    case StableDecay::kLinear:
      return 1 - q;
    case StableDecay::kCosine:
      return cosine(q);
    case StableDecay::kMinusSquareRoot:
      return 1 - std::sqrt(q);
  }
  return 0;
}

}  // namespace

double learning_rate(const RateSchedule& s, double samples) {
  if (s.warmup_samples > 0 && samples <= s.warmup_samples)
    return s.initial + (s.peak - s.initial) * samples / s.warmup_samples;
  if (s.decay == RateDecay::kConstant) return s.peak;
  if (samples > s.decay_samples) return s.minimum;
  if (s.decay == RateDecay::kInverseSquareRoot)
    return std::max(s.minimum,
                    s.peak * std::sqrt(std::max(s.warmup_samples, 1.0)) / std::sqrt(std::max(samples, 1.0)));
  // The end of warm-up may be the end of decay; then there is nothing left to come down from.
  const double span = s.decay_samples - s.warmup_samples;
  const double r = span > 0 ? (samples - s.warmup_samples) / span : 1.0;
  double c = 0;
  switch (s.decay) {
    case RateDecay::kLinear:
      c = 1 - r;
      break;
    case RateDecay::kCosine:
      c = cosine(r);
      break;
    case RateDecay::kWarmupStableDecay:
      c = stable_decay(s, samples);
      break;
    default:
      fail<InternalError>("rate decay {}", static_cast<int>(s.decay));
  }
  return s.minimum + c * (s.peak - s.minimum);
}

double weight_decay(const WeightDecaySchedule& s, double samples) {
  if (s.ramp == WeightDecayRamp::kConstant || samples >= s.samples) return s.end;
  const double q = samples / s.samples;
  const double c = s.ramp == WeightDecayRamp::kLinear ? q : cosine(1 - q);
  return s.start + c * (s.end - s.start);
}

}  // namespace stoa::ops
