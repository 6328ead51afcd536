// The structs of ops/optimizer.h that PrepareUpdate reads, as plain data. The formulas over them are those of
// ops/schedule_formulas.h, for both.
#pragma once

#include <cstdint>

namespace stoa::ops::cuda {

enum class RateDecayCode : std::uint8_t {
  kConstant,
  kLinear,
  kCosine,
  kInverseSquareRoot,
  kWarmupStableDecay
};
enum class StableDecayCode : std::uint8_t { kExponential, kLinear, kCosine, kMinusSquareRoot };
enum class RampCode : std::uint8_t { kConstant, kLinear, kCosine };

struct RateArgs {
  RateDecayCode decay = RateDecayCode::kConstant;
  StableDecayCode stable_decay = StableDecayCode::kExponential;
  double initial = 0, peak = 0, minimum = 0;
  double warmup_samples = 0, decay_samples = 0, stable_decay_samples = 0;
};
struct DecayArgs {
  RampCode ramp = RampCode::kConstant;
  double start = 0, end = 0, samples = 0;
};
struct LossScaleArgs {
  bool dynamic = false;
  double minimum = 1, growth = 2, backoff = 0.5;
  std::int64_t window = 1000, hysteresis = 2;
};

}  // namespace stoa::ops::cuda
