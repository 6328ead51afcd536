// The reference against numbers worked out apart from it.
#include <array>

#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

void expect_values(const TensorView& tensor, const Values& expected, double tolerance = 1e-12) {
  const Values got = load(tensor);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

}  // namespace

TEST(Vectors, Activations) {
  // Values of PyTorch at these points, in fp32.
  const Values x{-3, -1, -0.5, 0.5, 1, 3};
  const std::pair<ActivationKind, Values> table[] = {
      {ActivationKind::kGelu, {-.004050225, -.1586553, -.1542688, .3457312, .8413447, 2.99595}},
      {ActivationKind::kGeluTanh, {-.003637433, -.158808, -.154286, .345714, .841192, 2.996363}},
      {ActivationKind::kQuickGelu, {-.01807131, -.1542042, -.1496116, .3503884, .8457958, 2.981929}},
      {ActivationKind::kSilu, {-.1422776, -.2689414, -.1887703, .3112297, .7310586, 2.857723}},
      {ActivationKind::kRelu, {0, 0, 0, .5, 1, 3}},
      {ActivationKind::kSquaredRelu, {0, 0, 0, .25, 1, 9}},
      {ActivationKind::kTanh, {-.9950548, -.7615942, -.4621172, .4621172, .7615942, .9950548}},
      {ActivationKind::kSigmoid, {.04742587, .2689414, .3775407, .6224593, .7310586, .9525741}}};
  for (const auto& [kind, expected] : table) {
    Tensors t;
    ActivationForward op{kind, false, t.of(kF64, {1, 6}, x), t.empty(kF64, {1, 6})};
    run_reference(op);
    expect_values(op.y, expected, 1e-6);
    // Gated: f(gate) * up.
    Values both = x;
    for (double up : {2.0, 3.0, -1.0, 0.0, 10.0, 1.0}) both.push_back(up);
    op = {kind, true, t.of(kF64, {1, 12}, both), t.empty(kF64, {1, 6})};
    run_reference(op);
    expect_values(op.y, {2 * expected[0], 3 * expected[1], -expected[2], 0, 10 * expected[4], expected[5]},
                  6e-6);
  }
}

TEST(Vectors, Norms) {
  Tensors t;
  NormForward op;
  op.x = t.of(kF64, {1, 4}, {1, 3, 5, 7});  // mean 4, biased variance 5, mean square 21
  op.gamma = t.of(kF64, {4}, {1, 2, 3, 4});
  op.beta = t.of(kF64, {4}, {0, 0, 0, 100});
  op.y = t.empty(kF64, {1, 4});
  op.stats = t.empty(kF64, {1, 2});
  op.epsilon = 4;  // deviation 3
  run_reference(op);
  expect_values(op.y, {-1, -2.0 / 3, 1, 104});
  expect_values(op.stats, {4, 1.0 / 3});
  op.kind = NormKind::kRmsNorm;
  op.beta = {};
  op.epsilon = 15;  // root 6
  run_reference(op);
  expect_values(op.y, {1.0 / 6, 1, 2.5, 28.0 / 6});
  expect_values(op.stats, {0, 1.0 / 6});
}

TEST(Vectors, AttentionOfUniformScoresIsTheMeanOfVisibleValues) {
  Tensors t;
  AttentionForward op;
  op.segments.count = 2;
  op.segments.q_begin = t.int32({0, 3, 5});
  op.segments.k_begin = t.int32({0, 4});
  op.segments.k_count = t.int32({3, 4});  // the second segment: two queries at the end of four keys
  op.segments.longest_q = 3, op.segments.longest_k = 4;
  op.q = t.zeros(kF64, {5, 1, 1});
  op.k = t.random(kF64, {8, 1, 1});
  op.v = t.of(kF64, {8, 1, 1}, {3, 6, 9, -1000, 1, 2, 4, 8});
  op.o = t.empty(kF64, {5, 1, 1});
  op.lse = t.empty(kF64, {5, 1});
  run_reference(op);
  expect_values(op.o, {3, 4.5, 6, 7.0 / 3, 3.75});
  expect_values(op.lse, {0, std::log(2.0), std::log(3.0), std::log(3.0), std::log(4.0)});
  op.options.window = 2;
  run_reference(op);
  expect_values(op.o, {3, 4.5, 7.5, 3, 6});
  op.options.window = 0;
  op.options.causal = false;
  run_reference(op);
  expect_values(op.o, {6, 6, 6, 3.75, 3.75});
}

TEST(Vectors, CrossEntropy) {
  Tensors t;
  CrossEntropy op;
  // Softmax of (ln 1, ln 2, ln 5) is (1, 2, 5)/8; the fourth column is padding.
  op.logits = t.of(kF64, {2, 4}, {0, std::log(2.0), std::log(5.0), 50, 1000, 1000, 1000, 50});
  op.labels = t.int32({1, 2});
  op.loss_mask = t.of(DType::kF32, {2}, {1, 1});
  op.vocabulary = 3;
  op.losses = t.empty(kF64, {2});
  op.state = t.state(64);
  run_reference(BeginStep{op.state, 2});
  run_reference(op);
  expect_values(op.losses, {std::log(4.0), std::log(3.0)});
  expect_values(op.logits, {4, -24, 20, 0, 32.0 / 3, 32.0 / 3, -64.0 / 3, 0});
  run_reference(SumLosses{op.losses, op.loss_mask, op.state});
  run_reference(SumLosses{op.losses, t.of(DType::kF32, {2}, {1, 0}), op.state});
  EXPECT_NEAR(Tensors::slot(op.state, StepSlot::kLossSum), std::log(48.0), 1e-12);
}

TEST(Vectors, RotaryTurnsByAnAngle) {
  Tensors t;
  const double c = 0.6, s = 0.8;
  const Rotary op{t.of(kF64, {1, 1, 5}, {1, 2, 3, 4, 9}), t.int32({1}),
                  t.of(kF64, {2, 2, 2}, {1, 1, 0, 0, c, 0, s, 1}), false};
  run_reference(op);
  expect_values(op.x, {1 * c - 3 * s, -4, 3 * c + 1 * s, 2, 9});
}

TEST(Vectors, DropoutMaskIsAFunctionOfGlobalCoordinates) {
  const PhiloxKey key = philox_key(5, RandomPurpose::kHiddenDropout, "layer");
  Tensors t;
  const TensorView x = t.zeros(kF64, {40, 6}), ones = t.of(kF64, {40, 6}, Values(240, 1.0)),
                   y = t.empty(kF64, {40, 6});
  run_reference(ResidualAdd{x, ones, {0.25F, key, 100}, y});
  const Values whole = load(y);
  int kept = 0;
  for (std::uint64_t i = 0; i < 240; ++i) {
    const bool keep = uniform_from_word(philox_word(key, 600 + i)) >= 0.25F;
    EXPECT_DOUBLE_EQ(whole[i], keep ? 1 / 0.75 : 0);
    kept += keep;
  }
  EXPECT_NEAR(kept, 180, 25);
  // A cut of the rows draws the same mask.
  run_reference(ResidualAdd{x.slice(0, 7), ones.slice(0, 7), {0.25F, key, 110}, y.slice(0, 7)});
  EXPECT_EQ(Values(whole.begin() + 60, whole.begin() + 102), load(y.slice(0, 7)));
}

TEST(Vectors, RoundingOnceToHalfTypes) {
  // Just above the middle of two neighbours by less than fp32 resolves: rounding by way of fp32 would give
  // the even one.
  EXPECT_EQ(rounded(1 + 0x1p-8 + 0x1p-40, DType::kBF16), 1 + 0x1p-7);
  EXPECT_EQ(rounded(1 + 0x1p-8, DType::kBF16), 1);
  EXPECT_EQ(rounded(1 + 0x1p-8 - 0x1p-40, DType::kBF16), 1);
  EXPECT_EQ(rounded(1 + 0x1p-11 + 0x1p-40, DType::kF16), 1 + 0x1p-10);
  EXPECT_EQ(rounded(-(1 + 0x1p-11 + 0x1p-40), DType::kF16), -(1 + 0x1p-10));
  EXPECT_EQ(rounded(0x1p-25 + 0x1p-60, DType::kF16), 0x1p-24);
  EXPECT_EQ(rounded(1e300, DType::kBF16), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded(65519.999999, DType::kF16), 65504);
  EXPECT_TRUE(std::isnan(rounded(std::nan(""), DType::kF16)));
}

TEST(Vectors, AdamFirstStepsByHand) {
  Tensors t;
  AdamUpdate op;
  op.master = t.of(kF64, {1}, {2});
  op.gradient = t.of(kF64, {1}, {8});  // scaled by 16
  op.m = t.zeros(kF64, {1}), op.v = t.zeros(kF64, {1});
  op.state = t.state();
  op.epsilon = 0;
  Tensors::slot(op.state, StepSlot::kGradFactor) = 1.0 / 16;
  Tensors::slot(op.state, StepSlot::kLearningRate) = 0.1;
  Tensors::slot(op.state, StepSlot::kWeightDecay) = 0.5;
  Tensors::slot(op.state, StepSlot::kUpdates) = 1;
  run_reference(op);
  expect_values(op.m, {0.05});
  expect_values(op.v, {0.00025});
  expect_values(op.master, {2 * 0.95 - 0.1});  // the first step has the length of the rate
  Tensors::slot(op.state, StepSlot::kUpdates) = 2;
  op.gradient = t.of(kF64, {1}, {-16});
  run_reference(op);
  const double m = 0.9 * 0.05 - 0.1, v = 0.999 * 0.00025 + 0.001;
  expect_values(op.master, {1.8 * 0.95 - 0.1 * (m / 0.19) / std::sqrt(v / (1 - 0.998001))});

  // Adam with L2: the decay joins the gradient, so the first step is sign(g + decay w) times the rate.
  op.master = t.of(kF64, {1}, {2});
  op.m = t.zeros(kF64, {1}), op.v = t.zeros(kF64, {1});
  op.gradient = t.of(kF64, {1}, {-8});
  op.decoupled = false;
  op.rate_factor = 2;
  Tensors::slot(op.state, StepSlot::kUpdates) = 1;
  run_reference(op);
  expect_values(op.m, {0.1 * (-0.5 + 1)});
  expect_values(op.master, {1.8});
}

TEST(Vectors, SgdByHand) {
  Tensors t;
  SgdUpdate op;
  op.master = t.of(kF64, {1}, {2});
  op.compute = {};
  op.gradient = t.of(kF64, {1}, {3});
  op.momentum = t.zeros(kF64, {1});
  op.state = t.state();
  op.momentum_factor = 0.5;
  Tensors::slot(op.state, StepSlot::kGradFactor) = 1;
  Tensors::slot(op.state, StepSlot::kLearningRate) = 0.1;
  Tensors::slot(op.state, StepSlot::kWeightDecay) = 0.5;
  run_reference(op);
  expect_values(op.momentum, {4});
  expect_values(op.master, {1.6});
  run_reference(op);
  expect_values(op.momentum, {2 + 3.8});
  expect_values(op.master, {1.6 - 0.58});
}

TEST(Vectors, ComputeCopyIsMadeOfTheStoredMaster) {
  Tensors t;
  SgdUpdate op;
  op.master = t.random(DType::kF32, {500});
  op.compute = t.empty(DType::kBF16, {500});
  op.gradient = t.random(DType::kF32, {500});
  op.state = t.state();
  Tensors::slot(op.state, StepSlot::kGradFactor) = 1;
  Tensors::slot(op.state, StepSlot::kLearningRate) = 0.01;
  run_reference(op);
  const TensorView copy = t.empty(DType::kBF16, {500});
  run_reference(Cast{op.master, copy});
  EXPECT_EQ(load(op.compute), load(copy));
}

}  // namespace stoa::ops::testing
