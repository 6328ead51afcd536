// The formulas of ops/schedules.h, over any structs with those fields, so that kernels compile them too.
// `samples` as there.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define STOA_HOST_DEVICE __host__ __device__
#else
#define STOA_HOST_DEVICE
#endif

namespace stoa::ops {

STOA_HOST_DEVICE inline double half_cosine(double r) {
  constexpr double kPi = 3.141592653589793238462643383279502884;
  return (::cos(kPi * r) + 1) / 2;
}

template <class Schedule>
STOA_HOST_DEVICE double stable_decay_at(const Schedule& s, double samples) {
  using Decay = decltype(s.stable_decay);
  const double begin = s.decay_samples - s.stable_decay_samples;
  if (samples <= begin) return 1;
  const double q = (samples - begin) / s.stable_decay_samples;
  switch (s.stable_decay) {
    case Decay::kExponential:
      return 2 * ::pow(0.5, q) - 1;
    case Decay::kLinear:
      return 1 - q;
    case Decay::kCosine:
      return half_cosine(q);
    case Decay::kMinusSquareRoot:
      return 1 - ::sqrt(q);
  }
  return 0;
}

template <class Schedule>
STOA_HOST_DEVICE double rate_at(const Schedule& s, double samples) {
  using Decay = decltype(s.decay);
  const auto most = [](double a, double b) { return a > b ? a : b; };
  if (s.warmup_samples > 0 && samples <= s.warmup_samples)
    return s.initial + (s.peak - s.initial) * samples / s.warmup_samples;
  if (s.decay == Decay::kConstant) return s.peak;
  if (samples > s.decay_samples) return s.minimum;
  if (s.decay == Decay::kInverseSquareRoot)
    return most(s.minimum, s.peak * ::sqrt(most(s.warmup_samples, 1.0)) / ::sqrt(most(samples, 1.0)));
  // The end of warm-up may be the end of decay; then there is nothing left to come down from.
  const double span = s.decay_samples - s.warmup_samples;
  const double r = span > 0 ? (samples - s.warmup_samples) / span : 1.0;
  double c = 0;
  if (s.decay == Decay::kLinear) c = 1 - r;
  if (s.decay == Decay::kCosine) c = half_cosine(r);
  if (s.decay == Decay::kWarmupStableDecay) c = stable_decay_at(s, samples);
  return s.minimum + c * (s.peak - s.minimum);
}

template <class Schedule>
STOA_HOST_DEVICE double decay_at(const Schedule& s, double samples) {
  using Ramp = decltype(s.ramp);
  if (s.ramp == Ramp::kConstant || samples >= s.samples) return s.end;
  const double q = samples / s.samples;
  const double c = s.ramp == Ramp::kLinear ? q : half_cosine(1 - q);
  return s.start + c * (s.end - s.start);
}

}  // namespace stoa::ops
