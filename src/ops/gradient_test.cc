// The backward passes of the reference against central differences of its forward passes, all in fp64.
#include <tuple>

#include "ops/attention_cases.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

TEST(Gradient, Linear) {
  Tensors t;
  const LinearForward forward{t.random(kF64, {5, 7}, 1, 3), t.random(kF64, {4, 7}), t.random(kF64, {4}),
                              t.empty(kF64, {5, 4}, 2)};
  const TensorView dy = t.random(kF64, {5, 4}, 1, 1), dx = t.random(kF64, {5, 7}, 1, 2),
                   dw = t.random(kF64, {4, 7}), db = t.random(kF64, {4});
  const Values c = load(dy), dx_before = load(dx), dw_before = load(dw);
  const auto run = [&] { run_reference(forward); };

  run_reference(LinearBackwardInput{dy, forward.w, dx, false});
  run_reference(LinearBackwardWeight{forward.x, dy, dw, db, false});
  expect_gradient(dx, numeric_gradient(forward.x, forward.y, c, run), "dx");
  expect_gradient(dw, numeric_gradient(forward.w, forward.y, c, run), "dw");
  expect_gradient(db, numeric_gradient(forward.bias, forward.y, c, run), "db");

  // Accumulation adds the same once more.
  const Values once = load(dx), dw_once = load(dw);
  run_reference(LinearBackwardInput{dy, forward.w, dx, true});
  run_reference(LinearBackwardWeight{forward.x, dy, dw, {}, true});
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(load(dx)[i], 2 * once[i]);
  for (std::size_t i = 0; i < dw_once.size(); ++i) EXPECT_DOUBLE_EQ(load(dw)[i], 2 * dw_once[i]);
}

TEST(Gradient, LinearWithASecondProduct) {
  Tensors t;
  const LinearForward forward{.x = t.random(kF64, {5, 7}, 1, 3),
                              .w = t.random(kF64, {4, 7}),
                              .bias = t.random(kF64, {4}),
                              .y = t.empty(kF64, {5, 4}, 2),
                              .x2 = t.random(kF64, {5, 3}, 1, 1),
                              .w2 = t.random(kF64, {4, 3})};
  const TensorView dy = t.random(kF64, {5, 4}, 1, 1), dx = t.random(kF64, {5, 7}, 1, 2),
                   dx2 = t.random(kF64, {5, 3});
  const auto run = [&] { run_reference(forward); };
  run_reference(LinearBackwardInput{dy, forward.w2, dx2, false});
  expect_gradient(dx2, numeric_gradient(forward.x2, forward.y, load(dy), run), "dx2");

  // A layer that reads x twice: y = x W^T + (x A^T) B^T.
  const TensorView a = t.random(kF64, {3, 7}), dw2 = t.random(kF64, {4, 3});
  const auto run_both = [&] {
    run_reference(LinearForward{.x = forward.x, .w = a, .bias = {}, .y = forward.x2});
    run();
  };
  run_both();
  run_reference(LinearBackwardInput{.dy = dy, .w = forward.w, .dx = dx, .dy2 = dx2, .w2 = a});
  run_reference(LinearBackwardWeight{forward.x2, dy, dw2, {}, false});
  expect_gradient(dx, numeric_gradient(forward.x, forward.y, load(dy), run_both), "dx");
  expect_gradient(dw2, numeric_gradient(forward.w2, forward.y, load(dy), run_both), "dw2");
}

TEST(Gradient, ScaleMatrix) {
  Tensors t;
  const ScaleMatrix forward{.x = t.random(kF64, {5, 7}, 1, 3),
                            .rows = {},
                            .columns = t.random(kF64, {7}),
                            .bias = t.random(kF64, {7}),
                            .y = t.empty(kF64, {5, 7}, 2)};
  const TensorView dy = t.random(kF64, {5, 7}, 1, 1), dx = t.empty(kF64, {5, 7}),
                   dcolumns = t.empty(kF64, {7});
  const auto run = [&] { run_reference(forward); };
  run_reference(ScaleMatrix{.x = dy, .rows = {}, .columns = forward.columns, .bias = {}, .y = dx});
  run_reference(ScaleMatrixBackward{forward.x, dy, dcolumns, false});
  expect_gradient(dx, numeric_gradient(forward.x, forward.y, load(dy), run), "dx");
  expect_gradient(dcolumns, numeric_gradient(forward.columns, forward.y, load(dy), run), "dcolumns");
}

TEST(Gradient, LatentHeads) {
  Tensors t;
  const LatentHeads forward{t.random(kF64, {5, 3, 6}), t.random(kF64, {5, 4}, 1, 2), t.empty(kF64, {5, 3, 6}),
                            t.empty(kF64, {5, 3, 6})};  // 4 shared and 2 own columns, values of 4
  const LatentHeadsBackward backward{t.random(kF64, {5, 3, 6}), t.random(kF64, {5, 3, 6}),
                                     t.empty(kF64, {5, 3, 6}), t.empty(kF64, {5, 4}, 3)};
  run_reference(backward);
  // The loss is sum(dk k) + sum(dv v): both outputs in one tensor, as are their weights.
  const TensorView outputs = t.empty(kF64, {2, forward.k.elements()});
  Values c = load(backward.dk);
  const Values of_v = load(backward.dv);
  c.insert(c.end(), of_v.begin(), of_v.end());
  const auto run = [&] {
    run_reference(forward);
    Values both = load(forward.k);
    const Values v = load(forward.v);
    both.insert(both.end(), v.begin(), v.end());
    store(both, outputs);
  };
  expect_gradient(backward.dkv, numeric_gradient(forward.kv, outputs, c, run), "dkv");
  expect_gradient(backward.drope, numeric_gradient(forward.rope, outputs, c, run), "drope");
  LatentHeads wide = forward;
  wide.kv = t.random(kF64, {5, 3, 9});  // values of 7 for keys of 6
  EXPECT_THROW(run_reference(wide), ShapeError);
}

using NormParam =
    std::tuple<NormKind, int>;  // form 0: plain; 1: heads apart; 2: branch; 3: branch with dropout
class NormGradient : public ::testing::TestWithParam<NormParam> {};

TEST_P(NormGradient, MatchesDifferences) {
  const auto [kind, form] = GetParam();
  const Shape shape = form == 1 ? Shape{4, 3, 6} : Shape{5, 6};
  Tensors t;
  NormForward forward;
  forward.kind = kind;
  forward.x = t.random(kF64, shape, 2, form == 1 ? 5 : 0, 0.3);
  if (form >= 2) forward.branch = t.random(kF64, shape), forward.sum = t.empty(kF64, shape);
  if (form == 3) forward.dropout = {0.4F, philox_key(1, RandomPurpose::kHiddenDropout, "x"), 17};
  forward.gamma = t.random(kF64, {6}, 0.5, 0, 1);
  if (kind == NormKind::kLayerNorm) forward.beta = t.random(kF64, {6});
  forward.y = t.empty(kF64, shape);
  forward.stats = t.empty(kF64, {forward.x.elements() / 6, 2});
  run_reference(forward);

  NormBackward backward;
  backward.kind = kind;
  backward.x = form >= 2 ? forward.sum : forward.x;
  backward.stats = forward.stats;
  backward.gamma = forward.gamma;
  backward.dy = t.random(kF64, shape);
  backward.dx = t.empty(kF64, shape);
  backward.dgamma = t.empty(kF64, {6});
  if (kind == NormKind::kLayerNorm) backward.dbeta = t.empty(kF64, {6});
  backward.accumulate = false;
  if (form >= 2) {
    backward.dresidual = t.random(kF64, shape);
    backward.dbranch = t.empty(kF64, shape);
    backward.dropout = forward.dropout;
  }
  run_reference(backward);

  // The loss is sum(c y) + sum(r sum): y and the sum lie side by side in one tensor, as do their weights.
  const TensorView outputs = t.empty(kF64, {2, forward.y.elements()});
  Values c = load(backward.dy), r = load(backward.dresidual);
  c.insert(c.end(), r.begin(), r.end());
  c.resize(static_cast<std::size_t>(outputs.elements()));
  const auto run = [&] {
    run_reference(forward);
    Values both = load(forward.y), sum = load(forward.sum);
    both.insert(both.end(), sum.begin(), sum.end());
    both.resize(static_cast<std::size_t>(outputs.elements()));
    store(both, outputs);
  };
  expect_gradient(backward.dx, numeric_gradient(forward.x, outputs, c, run), "dx");
  expect_gradient(backward.dgamma, numeric_gradient(forward.gamma, outputs, c, run), "dgamma");
  if (forward.beta) expect_gradient(backward.dbeta, numeric_gradient(forward.beta, outputs, c, run), "dbeta");
  if (form >= 2)
    expect_gradient(backward.dbranch, numeric_gradient(forward.branch, outputs, c, run), "dbranch");
}

INSTANTIATE_TEST_SUITE_P(Forms, NormGradient,
                         ::testing::Combine(::testing::Values(NormKind::kLayerNorm, NormKind::kRmsNorm),
                                            ::testing::Values(0, 1, 2, 3)));

class AttentionGradient : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionGradient, MatchesDifferences) {
  Tensors t;
  const AttentionForward forward = make_attention(t, GetParam(), kF64);
  run_reference(forward);
  const AttentionBackward backward = make_backward(t, forward);
  if (backward.drelative_bias)
    store(Values(static_cast<std::size_t>(backward.drelative_bias.elements())), backward.drelative_bias);
  run_reference(backward);
  const Values c = load(backward.dout);
  const auto run = [&] { run_reference(forward); };
  expect_gradient(backward.dq, numeric_gradient(forward.q, forward.o, c, run), "dq");
  expect_gradient(backward.dk, numeric_gradient(forward.k, forward.o, c, run), "dk");
  expect_gradient(backward.dv, numeric_gradient(forward.v, forward.o, c, run), "dv");
  if (!forward.relative_bias) return;
  const Values dbias = numeric_gradient(forward.relative_bias, forward.o, c, run);
  expect_gradient(backward.drelative_bias, dbias, "drelative_bias");
  // Accumulation adds the same once more.
  const Values once = load(backward.drelative_bias);
  run_reference(backward);
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_DOUBLE_EQ(load(backward.drelative_bias)[i], 2 * once[i]);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionGradient,
    ::testing::Values(AttentionCase{"square", 2, 2, 4, {{6, 6}}}, AttentionCase{"grouped", 4, 2, 3, {{5, 5}}},
                      AttentionCase{"packed", 2, 1, 3, {{3, 3}, {1, 1}, {4, 4}}},
                      AttentionCase{"window", 2, 2, 3, {{8, 8}}, true, 3},
                      AttentionCase{"full", 2, 1, 3, {{4, 4}}, false},
                      AttentionCase{"earlier_keys", 2, 1, 3, {{4, 5}, {3, 2}}, true, 7, 0, 0, 0, 0, 0, 0, 1},
                      AttentionCase{"cache", 2, 1, 3, {{2, 7}, {1, 4}}, true, 0, 0, 0, 2},
                      AttentionCase{"strided", 2, 1, 3, {{5, 5}}, true, 0, 0, 5},
                      AttentionCase{"few keys", 1, 1, 3, {{5, 2}}},
                      AttentionCase{"dropout", 2, 1, 3, {{6, 6}, {3, 3}}, true, 4, 0.4F},
                      AttentionCase{"cap", 2, 1, 3, {{6, 6}}, true, 0, 0, 0, 0, 0.8},
                      AttentionCase{"bias", 2, 1, 3, {{6, 6}, {4, 4}}, false, 0, 0, 0, 0, 0, -2, 4},
                      AttentionCase{"bias and cap", 2, 2, 3, {{5, 7}}, true, 4, 0.2F, 0, 0, 1.2, -6, 8}),
    [](const ::testing::TestParamInfo<AttentionCase>& test) {
      std::string name = test.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(Gradient, Rotary) {
  Tensors t;
  const TensorView table = t.random(kF64, {9, 2, 2});
  const TensorView positions = t.int32({3, 0, 8, 5}), x = t.random(kF64, {4, 2, 6}), start = t.copy(x),
                   y = t.empty(kF64, {4, 2, 6});
  const TensorView dy = t.random(kF64, {4, 2, 6});
  const Values c = load(dy);
  const auto run = [&] {
    run_reference(Cast{start, x});
    run_reference(Rotary{x, positions, table, false});
    run_reference(Cast{x, y});
  };
  const Values expected = numeric_gradient(start, y, c, run);
  run_reference(Rotary{dy, positions, table, true});
  expect_gradient(dy, expected, "dx");
}

using ActivationParam = std::tuple<ActivationKind, bool>;
class ActivationGradient : public ::testing::TestWithParam<ActivationParam> {};

TEST_P(ActivationGradient, MatchesDifferences) {
  const auto [kind, gated] = GetParam();
  Tensors t;
  const ActivationForward forward{kind, gated, t.random(kF64, {4, gated ? 10 : 5}, 2), t.empty(kF64, {4, 5})};
  const ActivationBackward backward{kind, gated, forward.x, t.random(kF64, {4, 5}),
                                    t.empty(kF64, forward.x.shape)};
  run_reference(backward);
  const Values c = load(backward.dy);
  expect_gradient(backward.dx, numeric_gradient(forward.x, forward.y, c, [&] { run_reference(forward); }),
                  "dx");
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ActivationGradient,
    ::testing::Combine(::testing::Values(ActivationKind::kGelu, ActivationKind::kGeluTanh,
                                         ActivationKind::kQuickGelu, ActivationKind::kSilu,
                                         ActivationKind::kRelu, ActivationKind::kSquaredRelu,
                                         ActivationKind::kTanh, ActivationKind::kSigmoid),
                       ::testing::Bool()));

// Some gates and ups are beyond the limit.
TEST(Gradient, ClampedSwiglu) {
  Tensors t;
  const ActivationClamp clamp{1.3, 1.5};
  const ActivationForward forward{ActivationKind::kClampedSwiglu, true, t.random(kF64, {6, 14}, 2),
                                  t.empty(kF64, {6, 7}), clamp};
  const ActivationBackward backward{ActivationKind::kClampedSwiglu, true, forward.x, t.random(kF64, {6, 7}),
                                    t.empty(kF64, forward.x.shape), clamp};
  run_reference(backward);
  const Values c = load(backward.dy);
  expect_gradient(backward.dx, numeric_gradient(forward.x, forward.y, c, [&] { run_reference(forward); }),
                  "dx");
}

// Attention with sinks, from its definition: one more key per query, whose value is zero.
TEST(Gradient, AttentionSinks) {
  Tensors t;
  AttentionForward forward = make_attention(t, {"sinks", 4, 2, 6, {{5, 5}, {3, 3}}}, kF64);
  const TensorView sinks = t.random(kF64, {4});
  const auto run = [&] {
    run_reference(forward);
    run_reference(AttentionSink{sinks, forward.o, forward.lse});
  };
  run();
  const TensorView dout = t.random(kF64, forward.o.shape);
  AttentionBackward backward;
  backward.options = forward.options;
  backward.segments = forward.segments;
  backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
  backward.o = t.copy(forward.o), backward.lse = t.copy(forward.lse), backward.dout = dout;
  backward.dq = t.empty(kF64, forward.q.shape), backward.dk = t.empty(kF64, forward.k.shape);
  backward.dv = t.empty(kF64, forward.v.shape);
  run_reference(backward);
  const TensorView dsinks = t.empty(kF64, {4});
  run_reference(AttentionSinkBackward{sinks, backward.o, dout, backward.lse, dsinks, false});
  const Values c = load(dout);
  expect_gradient(dsinks, numeric_gradient(sinks, forward.o, c, run), "dsinks");
  expect_gradient(backward.dq, numeric_gradient(forward.q, forward.o, c, run), "dq");
  expect_gradient(backward.dk, numeric_gradient(forward.k, forward.o, c, run), "dk");
  expect_gradient(backward.dv, numeric_gradient(forward.v, forward.o, c, run), "dv");
  // Accumulation adds the same once more.
  const Values once = load(dsinks);
  run_reference(AttentionSinkBackward{sinks, backward.o, dout, backward.lse, dsinks, true});
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(load(dsinks)[i], 2 * once[i]);
}

TEST(Gradient, ExpertBias) {
  Tensors t;
  const TensorView experts = t.int32({0, 0, 2, -1}).reshape({4, 1}),
                   order = t.int32({3, 1, 0, 2}).reshape({4, 1}), weights = t.random(kF64, {4, 1}),
                   bias = t.random(kF64, {3, 5}), x = t.random(kF64, {4, 5}), y = t.empty(kF64, {4, 5}),
                   dy = t.random(kF64, {4, 5});
  const auto run = [&] {
    run_reference(Cast{.x = x, .y = y});
    run_reference(ExpertBias{bias, experts, order, weights, y});
  };
  const TensorView dbias = t.empty(kF64, bias.shape), dweights = t.zeros(kF64, weights.shape);
  run_reference(ExpertBiasBackward{dy, experts, order, weights, dbias, false});
  run_reference(ExpertBiasBackwardWeights{dy, bias, experts, order, dweights});
  const Values c = load(dy);
  expect_gradient(dbias, numeric_gradient(bias, y, c, run), "dbias");
  expect_gradient(dweights, numeric_gradient(weights, y, c, run), "dweights");
}

TEST(Gradient, EmbeddingAddsToEveryRowUsed) {
  for (const float p : {0.0F, 0.3F}) {
    Tensors t;
    EmbeddingForward forward;
    forward.tokens = t.int32({2, 0, 2, 4, 2});
    forward.table = t.random(kF64, {5, 3});
    forward.positions = t.int32({0, 1, 2, 0, 1});
    forward.position_table = t.random(kF64, {4, 3});
    forward.dropout = {p, philox_key(1, RandomPurpose::kEmbeddingDropout, "x"), 3};
    forward.y = t.empty(kF64, {5, 3});
    EmbeddingBackward backward{forward.tokens,         forward.positions,     forward.dropout,
                               t.random(kF64, {5, 3}), t.zeros(kF64, {5, 3}), t.zeros(kF64, {4, 3})};
    run_reference(backward);
    const Values c = load(backward.dy);
    const auto run = [&] { run_reference(forward); };
    expect_gradient(backward.dtable, numeric_gradient(forward.table, forward.y, c, run), "dtable");
    expect_gradient(backward.dposition_table, numeric_gradient(forward.position_table, forward.y, c, run),
                    "dposition_table");
    const Values first = load(backward.dtable);
    run_reference(backward);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(load(backward.dtable)[i], 2 * first[i], 1e-14);
  }
}

TEST(Gradient, CrossEntropyWithMaskAndPadding) {
  Tensors t;
  CrossEntropy forward;
  forward.logits = t.random(kF64, {4, 8}, 2);
  forward.labels = t.int32({3, 0, 4, 2});
  forward.loss_mask = t.of(DType::kF32, {4}, {1, 0, 1, 1});
  forward.vocabulary = 5;
  forward.gradient = false;
  forward.losses = t.empty(kF64, {4});
  CrossEntropy backward = forward;
  backward.gradient = true;
  backward.state = t.state(32);
  run_reference(BeginStep{backward.state, 3});

  const double seed = 32.0 / 3;
  const Values c{seed, 0, seed, seed};
  const Values expected =
      numeric_gradient(forward.logits, forward.losses, c, [&] { run_reference(forward); });
  const Values losses = load(forward.losses);
  run_reference(backward);
  expect_gradient(backward.logits, expected, "dlogits");
  EXPECT_EQ(load(backward.losses), losses);
  const Values gradient = load(backward.logits);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(gradient[8 + i], 0) << "masked token";
  for (int row = 0; row < 4; ++row)
    for (int i = 5; i < 8; ++i) EXPECT_EQ(gradient[row * 8 + i], 0) << "padding";
}

TEST(Gradient, CrossEntropyWithSmoothingAndZ) {
  Tensors t;
  CrossEntropy forward;
  forward.logits = t.random(kF64, {3, 8}, 2);
  forward.labels = t.int32({3, 0, 4});
  forward.loss_mask = t.of(DType::kF32, {3}, {1, 1, 1});
  forward.vocabulary = 7;
  forward.smoothing = 0.2;
  forward.z_weight = 0.05;
  forward.gradient = false;
  forward.losses = t.empty(kF64, {3});
  CrossEntropy backward = forward;
  backward.gradient = true;
  backward.state = t.state(1);
  run_reference(BeginStep{backward.state, 1});
  const Values expected =
      numeric_gradient(forward.logits, forward.losses, {1, 1, 1}, [&] { run_reference(forward); });
  run_reference(backward);
  expect_gradient(backward.logits, expected, "dlogits");
}

// A vocabulary of 7 cut into 3, 2 and 2 columns gives the losses and gradients of the whole.
TEST(Gradient, CrossEntropyOfASplitVocabulary) {
  Tensors t;
  CrossEntropy whole;
  whole.logits = t.random(kF64, {5, 7}, 3);
  whole.labels = t.int32({3, 0, 6, 2, 9});
  whole.loss_mask = t.of(DType::kF32, {5}, {1, 1, 1, 1, 0});
  whole.vocabulary = 7;
  whole.smoothing = 0.1;
  whole.z_weight = 0.02;
  whole.state = t.state(4);
  run_reference(BeginStep{whole.state, 4});
  whole.losses = t.empty(kF64, {5});
  const Values logits = load(whole.logits);
  const std::int64_t first[] = {0, 3, 5, 7};
  const TensorView parts = t.empty(kF64, {3, 5, 4});
  std::vector<TensorView> pieces;
  for (std::int64_t r = 0; r < 3; ++r) {
    const std::int64_t columns = first[r + 1] - first[r];
    Values values;
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t c = 0; c < columns; ++c) values.push_back(logits[i * 7 + first[r] + c]);
      values.push_back(99);  // padding
    }
    pieces.push_back(t.of(kF64, {5, columns + 1}, values));
    run_reference(
        CrossEntropyPart{pieces.back(), whole.labels, first[r], columns, parts.slice(r, 1).reshape({5, 4})});
  }
  run_reference(whole);
  const Values gradient = load(whole.logits), losses = load(whole.losses);
  for (std::int64_t r = 0; r < 3; ++r) {
    const std::int64_t columns = first[r + 1] - first[r];
    CrossEntropyMerge merge;
    merge.logits = pieces[static_cast<std::size_t>(r)];
    merge.labels = whole.labels;
    merge.loss_mask = whole.loss_mask;
    merge.parts = parts;
    merge.first_column = first[r];
    merge.columns = columns;
    merge.vocabulary = 7;
    merge.state = whole.state;
    merge.losses = t.empty(kF64, {5});
    merge.smoothing = whole.smoothing;
    merge.z_weight = whole.z_weight;
    run_reference(merge);
    const Values got = load(merge.logits), got_losses = load(merge.losses);
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(got_losses[i], losses[i], 1e-13);
      for (std::int64_t c = 0; c < columns; ++c)
        EXPECT_NEAR(got[i * (columns + 1) + c], gradient[i * 7 + first[r] + c], 1e-14);
      EXPECT_EQ(got[i * (columns + 1) + columns], 0) << "padding";
    }
  }
}

TEST(Gradient, ResidualAddAndDropout) {
  Tensors t;
  const Dropout dropout{0.5F, philox_key(1, RandomPurpose::kHiddenDropout, "x"), 5};
  const ResidualAdd forward{t.random(kF64, {6, 7}), t.random(kF64, {6, 7}), dropout, t.empty(kF64, {6, 7})};
  const DropoutBackward backward{t.random(kF64, {6, 7}), dropout, t.empty(kF64, {6, 7})};
  run_reference(backward);
  const Values c = load(backward.dy);
  const auto run = [&] { run_reference(forward); };
  expect_gradient(backward.dbranch, numeric_gradient(forward.branch, forward.y, c, run), "dbranch");
  expect_gradient(backward.dy, numeric_gradient(forward.x, forward.y, c, run), "dx");
}

}  // namespace stoa::ops::testing
