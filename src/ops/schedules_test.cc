#include "ops/schedules.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stoa::ops {

namespace {

RateSchedule schedule(RateDecay decay) {
  RateSchedule s;
  s.decay = decay;
  s.initial = 0.001;
  s.peak = 0.5;
  s.minimum = 0.05;
  s.warmup_samples = 100;
  s.decay_samples = 1100;
  return s;
}

}  // namespace

TEST(Schedules, WarmUpIsLinearAndIncludesItsEnd) {
  for (auto decay : {RateDecay::kConstant, RateDecay::kLinear, RateDecay::kCosine,
                     RateDecay::kInverseSquareRoot, RateDecay::kWarmupStableDecay}) {
    const RateSchedule s = schedule(decay);
    EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.001);
    EXPECT_DOUBLE_EQ(learning_rate(s, 25), 0.001 + 0.499 * 0.25);
    EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.5);
  }
}

TEST(Schedules, Constant) {
  const RateSchedule s = schedule(RateDecay::kConstant);
  EXPECT_DOUBLE_EQ(learning_rate(s, 101), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5000), 0.5);  // also past decay_samples
}

TEST(Schedules, Linear) {
  const RateSchedule s = schedule(RateDecay::kLinear);
  EXPECT_DOUBLE_EQ(learning_rate(s, 350), 0.05 + 0.75 * 0.45);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1100), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1e9), 0.05);
}

TEST(Schedules, Cosine) {
  const RateSchedule s = schedule(RateDecay::kCosine);
  EXPECT_DOUBLE_EQ(learning_rate(s, 600), 0.05 + 0.5 * 0.45);
  EXPECT_DOUBLE_EQ(learning_rate(s, 350), 0.05 + (std::sqrt(0.5) + 1) / 2 * 0.45);
  EXPECT_NEAR(learning_rate(s, 1100), 0.05, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1101), 0.05);
}

TEST(Schedules, InverseSquareRoot) {
  RateSchedule s = schedule(RateDecay::kInverseSquareRoot);
  EXPECT_DOUBLE_EQ(learning_rate(s, 400), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1101), 0.05);
  s.minimum = 0.3;
  EXPECT_DOUBLE_EQ(learning_rate(s, 400), 0.3);
  s.warmup_samples = 0;
  s.minimum = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.5);  // no division by zero
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.05);
}

TEST(Schedules, WarmUpStableDecay) {
  RateSchedule s = schedule(RateDecay::kWarmupStableDecay);
  s.stable_decay_samples = 200;
  EXPECT_DOUBLE_EQ(learning_rate(s, 500), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 900), 0.5);
  struct Expected {
    StableDecay decay;
    double half, end;  // c at q = 1/2 and 1
  };
  for (const auto& e : {Expected{StableDecay::kExponential, 2 * std::sqrt(0.5) - 1, 0},
                        Expected{StableDecay::kLinear, 0.5, 0}, Expected{StableDecay::kCosine, 0.5, 0},
                        Expected{StableDecay::kMinusSquareRoot, 1 - std::sqrt(0.5), 0}}) {
    s.stable_decay = e.decay;
    EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.05 + e.half * 0.45);
    EXPECT_NEAR(learning_rate(s, 1100), 0.05 + e.end * 0.45, 1e-15);
    EXPECT_DOUBLE_EQ(learning_rate(s, 1200), 0.05);
  }
}

TEST(Schedules, WithoutWarmUpTheFirstRateIsThePeak) {
  RateSchedule s = schedule(RateDecay::kCosine);
  s.warmup_samples = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.5);
}

TEST(Schedules, WarmUpThatIsTheWholeRun) {
  RateSchedule s = schedule(RateDecay::kCosine);
  s.decay_samples = 100;
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 101), 0.05);
}

TEST(Schedules, WeightDecay) {
  WeightDecaySchedule s{WeightDecayRamp::kConstant, 0.1, 0.1, 0};
  EXPECT_DOUBLE_EQ(weight_decay(s, 0), 0.1);
  s = {WeightDecayRamp::kLinear, 0.02, 0.1, 1000};
  EXPECT_DOUBLE_EQ(weight_decay(s, 0), 0.02);
  EXPECT_DOUBLE_EQ(weight_decay(s, 250), 0.04);
  EXPECT_DOUBLE_EQ(weight_decay(s, 1000), 0.1);
  EXPECT_DOUBLE_EQ(weight_decay(s, 3000), 0.1);
  s.ramp = WeightDecayRamp::kCosine;
  EXPECT_NEAR(weight_decay(s, 0), 0.02, 1e-17);
  EXPECT_DOUBLE_EQ(weight_decay(s, 250), 0.02 + 0.08 * (1 - std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(weight_decay(s, 500), 0.06);
}

}  // namespace stoa::ops
