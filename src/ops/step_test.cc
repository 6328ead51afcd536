// What PrepareUpdate decides: norm, clipping, skips, rates, counters, loss scale.
#include "ops/op_test_util.h"
#include "ops/schedules.h"

namespace stoa::ops::testing {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class Step {
 public:
  explicit Step(double loss_scale = 1) : state_(tensors_.state(loss_scale)) { update.state = state_; }
  double& operator[](StepSlot slot) { return Tensors::slot(state_, slot); }

  // One step whose gradients have this sum of squares.
  void run(double squares, double tokens = 10) {
    run_reference(BeginStep{state_, tokens});
    (*this)[StepSlot::kSquares] = squares;
    run_reference(update);
  }

  PrepareUpdate update;

 private:
  Tensors tensors_;
  TensorView state_;
};

}  // namespace

TEST(StepState, BeginStepSetsTheSeedOfBackward) {
  Step step(1024);
  step.update.samples = 2;
  step.run(1, 32);
  EXPECT_EQ(step[StepSlot::kTokens], 32);
  EXPECT_EQ(step[StepSlot::kLossSeed], 32);
  step[StepSlot::kLossSum] = 5;
  step.run(1, 0);
  EXPECT_EQ(step[StepSlot::kLossSeed], 0);
  EXPECT_EQ(step[StepSlot::kLossSum], 0);
}

TEST(StepState, NormIsOfUnscaledGradientsAndClips) {
  Step step(4);
  step.run(144);
  EXPECT_EQ(step[StepSlot::kGradNorm], 3);
  EXPECT_EQ(step[StepSlot::kGradFactor], 0.25);  // no clipping asked
  step.update.max_norm = 5;
  step.run(144);
  EXPECT_EQ(step[StepSlot::kGradFactor], 0.25);  // below the limit
  step.update.max_norm = 1;
  step.run(144);
  EXPECT_DOUBLE_EQ(step[StepSlot::kGradFactor], 1 / 3.000001 / 4);
}

TEST(StepState, FirstUpdateHasTheRateOfZeroSamples) {
  Step step;
  step.update.rate = {RateDecay::kCosine, StableDecay::kExponential, 0, 1, 0.1, 20, 100, 0};
  step.update.weight_decay = {WeightDecayRamp::kLinear, 0, 1, 100};
  step.update.samples = 10;
  for (double samples : {0.0, 10.0, 20.0, 30.0, 40.0}) {
    step.run(1);
    EXPECT_EQ(step[StepSlot::kLearningRate], learning_rate(step.update.rate, samples));
    EXPECT_EQ(step[StepSlot::kWeightDecay], samples / 100);
    EXPECT_EQ(step[StepSlot::kSamples], samples + 10);
  }
  EXPECT_EQ(step[StepSlot::kUpdates], 5);
}

TEST(StepState, SkippedStepsDoNotAdvance) {
  Step step;
  step.update.samples = 10;
  step.run(1);
  for (double squares : {kInf, std::nan("")}) {
    step.run(squares);
    EXPECT_EQ(step[StepSlot::kFoundInf], 1);
    EXPECT_EQ(step[StepSlot::kGradFactor], 0);
  }
  step.run(1, 0);  // no tokens
  EXPECT_EQ(step[StepSlot::kFoundInf], 1);
  EXPECT_EQ(step[StepSlot::kSkipped], 3);
  EXPECT_EQ(step[StepSlot::kUpdates], 1);
  EXPECT_EQ(step[StepSlot::kSamples], 10);
  step.run(1);
  EXPECT_EQ(step[StepSlot::kFoundInf], 0);
  EXPECT_EQ(step[StepSlot::kUpdates], 2);
}

TEST(StepState, LossScaleFallsWhenHysteresisIsSpentAndGrowsAfterAWindow) {
  Step step(1024);
  step.update.loss_scale = {true, 128, 2, 0.5, 3, 2};
  step[StepSlot::kHysteresis] = 2;
  step.run(kInf);
  EXPECT_EQ(step[StepSlot::kLossScale], 1024);  // the first is forgiven
  step.run(1);
  step.run(kInf);
  EXPECT_EQ(step[StepSlot::kLossScale], 512);  // infs need not follow each other
  step.run(kInf);
  EXPECT_EQ(step[StepSlot::kLossScale], 256);  // then every one counts
  step.run(1);
  step.run(1);
  step.run(1, 0);  // a step without tokens is none
  EXPECT_EQ(step[StepSlot::kGoodSteps], 2);
  step.run(1);
  EXPECT_EQ(step[StepSlot::kLossScale], 512);
  EXPECT_EQ(step[StepSlot::kGoodSteps], 0);
  EXPECT_EQ(step[StepSlot::kHysteresis], 2);
  for (int i = 0; i < 10; ++i) step.run(kInf);
  EXPECT_EQ(step[StepSlot::kLossScale], 128);  // not below the minimum
  EXPECT_EQ(step[StepSlot::kLossSeed], 12.8);
}

TEST(StepState, StaticLossScaleStays) {
  Step step(1024);
  for (int i = 0; i < 5; ++i) step.run(kInf);
  for (int i = 0; i < 2000; ++i) step.run(1);
  EXPECT_EQ(step[StepSlot::kLossScale], 1024);
}

}  // namespace stoa::ops::testing
