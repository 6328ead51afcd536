// What the operations of a mixture of experts mean: gradients by differences, the rules of choice.
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

TEST(Router, ChoosesTheBestTiesToTheLowerIndex) {
  Tensors t;
  const TensorView logits = t.of(kF64, {2, 4}, {1, 3, 3, 0, 0, 0, 0, 0}),
                   experts = t.empty(DType::kI32, {2, 2}), weights = t.empty(kF64, {2, 2});
  run_reference(RouterForward{{}, logits, {}, experts, weights});
  EXPECT_EQ(load_integers(experts), (std::vector<std::int64_t>{1, 2, 0, 1}));
  EXPECT_EQ(load(weights), (Values{0.5, 0.5, 0.5, 0.5}));
  // The bias decides, and does not weigh.
  run_reference(RouterForward{{}, logits, t.of(kF64, {4}, {9, 0, 0, 8}), experts, weights});
  EXPECT_EQ(load_integers(experts), (std::vector<std::int64_t>{0, 3, 0, 3}));
  EXPECT_NEAR(load(weights)[0], std::exp(1.0) / (std::exp(1.0) + 1), 1e-15);
}

TEST(Router, GroupsLimitTheChoice) {
  Tensors t;
  // The best expert (5) stands in a group whose two best are worse than those of the others.
  const TensorView logits = t.of(kF64, {1, 6}, {2.0, 1.9, 1.8, 1.7, -9, 2.1}),
                   experts = t.empty(DType::kI32, {1, 3}), weights = t.empty(kF64, {1, 3});
  RouterOptions options;
  options.score = RouterScore::kSigmoid;
  options.groups = 3;
  options.chosen_groups = 2;
  run_reference(RouterForward{options, logits, {}, experts, weights});
  EXPECT_EQ(load_integers(experts), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_NEAR(load(weights)[0] + load(weights)[1] + load(weights)[2], 1, 1e-15);
}

TEST(Grouping, SortsByExpertAndKeepsTheOrderOfTokens) {
  Tensors t;
  const TensorView experts = t.int32({2, 0, 0, 2, 1, 2}).reshape({3, 2});
  const TensorView order = t.empty(DType::kI32, {3, 2}), place = t.empty(DType::kI32, {3, 2}),
                   sorted = t.empty(DType::kI32, {3, 2});
  run_reference(GroupByExpert{3, experts, order, place, sorted});
  EXPECT_EQ(load_integers(order), (std::vector<std::int64_t>{1, 2, 4, 0, 3, 5}));
  EXPECT_EQ(load_integers(place), (std::vector<std::int64_t>{3, 0, 1, 4, 2, 5}));
  EXPECT_EQ(load_integers(sorted), (std::vector<std::int64_t>{0, 0, 1, 2, 2, 2}));
  EXPECT_THROW(run_reference(GroupByExpert{2, experts, order, place, sorted}), DataError);
}

// Two ranks' tokens of the same two sequences, which context parallelism has cut into two runs each.
TEST(Assignments, AreCountedBySequence) {
  Tensors t;
  const TensorView counts = t.empty(kF64, {2, 3});
  const auto count = [&](std::int64_t first, const TensorView& experts) {
    run_reference(CountAssignments{{2, 2, first}, experts, counts});
    return load(counts);
  };
  EXPECT_EQ(count(0, t.int32({0, 1, 2, 2, 0, 0, 1, 1}).reshape({8, 1})), (Values{3, 1, 0, 0, 2, 2}));
  EXPECT_EQ(count(1, t.int32({0, 1, 1, 2}).reshape({2, 2})), (Values{1, 1, 0, 0, 1, 1}));
}

// Four experts, two groups of two members; this is member 2.
TEST(Grouping, SendsToEveryMemberThatHoldsAPart) {
  Tensors t;
  const TensorView experts = t.int32({3, 0, 2, 1}).reshape({2, 2}), order = t.empty(DType::kI32, {2, 4}),
                   place = t.empty(DType::kI32, {2, 4}), counts = t.empty(DType::kI32, {4, 2});
  run_reference(GroupByExpert{4, experts, order, place, {}, {4, 2, 2}, counts});
  EXPECT_EQ(load_integers(counts), (std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1}));
  // Member 2 (experts 2, 3), then 0 and 1 (experts 0, 1), then 3.
  EXPECT_EQ(load_integers(order), (std::vector<std::int64_t>{4, 0, 2, 6, 3, 7, 5, 1}));
  EXPECT_EQ(load_integers(place), (std::vector<std::int64_t>{1, 7, 2, 4, 0, 6, 3, 5}));
  EXPECT_THROW(run_reference(GroupByExpert{5, experts, order, place, {}, {4, 2, 2}, counts}), ShapeError);
}

TEST(Grouping, BringsArrivalsOfAnExpertTogether) {
  Tensors t;
  const TensorView counts = t.int32({1, 0, 2, 1, 0, 2}).reshape({3, 2}), order = t.empty(DType::kI32, {8, 1}),
                   place = t.empty(DType::kI32, {8, 1}), sorted = t.empty(DType::kI32, {8, 1});
  // From member 0: row 0 of expert 0; from 2: rows 1, 2 of expert 1; from 1 itself: 3, 4 and 5.
  run_reference(GroupArrivals{1, counts, order, place, sorted});
  EXPECT_EQ(load_integers(order), (std::vector<std::int64_t>{0, 3, 4, 5, 1, 2, 6, 7}));
  EXPECT_EQ(load_integers(place), (std::vector<std::int64_t>{0, 4, 5, 1, 2, 3, 6, 7}));
  EXPECT_EQ(load_integers(sorted), (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, -1, -1}));
}

// Two sequences of three tokens, two of three experts each; an expert takes two assignments of a sequence.
TEST(Limit, DropsWithinASequence) {
  Tensors t;
  const TensorView experts = t.int32({0, 1, 0, 2, 0, 1, 0, 1, 0, 1, 2, 1}).reshape({6, 2}),
                   weights = t.of(kF64, {6, 2}, {.3, .5, .4, .1, .3, .5, .1, .1, .2, .2, .1, .2}),
                   choices = t.zeros(kF64, {6, 4}), kept = t.empty(DType::kI32, {6, 2});
  const TokenPlaces whole{{2, 3, 0}, 3, {}};
  run_reference(PlaceChoices{whole, experts, weights, choices});
  // Of the first sequence token 2 loses expert 0: its weight is that of token 0, which comes before it. Of
  // the second token 3 loses expert 1.
  run_reference(LimitExperts{whole, 2, DropPolicy::kWeight, choices, kept});
  EXPECT_EQ(load_integers(kept), (std::vector<std::int64_t>{0, 1, 0, 2, -1, 1, 0, -1, 0, 1, 2, 1}));
  run_reference(LimitExperts{whole, 2, DropPolicy::kPosition, choices, kept});
  EXPECT_EQ(load_integers(kept), (std::vector<std::int64_t>{0, 1, 0, 2, -1, 1, 0, 1, 0, 1, 2, -1}));
  EXPECT_THROW(run_reference(LimitExperts{whole, 0, DropPolicy::kWeight, choices, kept}), ShapeError);
}

// One sequence of four tokens; this rank has the first and the last.
TEST(Limit, CountsTokensOfOtherRanks) {
  Tensors t;
  const TensorView experts = t.int32({0, 0}).reshape({2, 1}), weights = t.of(kF64, {2, 1}, {.2, .9}),
                   choices = t.of(kF64, {4, 2}, {0, 0, 0, .5, 1, .5, 0, 0}),
                   kept = t.empty(DType::kI32, {2, 1});
  const TokenPlaces cut{{1, 1, 0}, 4, {0, 3}};
  run_reference(PlaceChoices{cut, experts, weights, choices});
  EXPECT_EQ(load(choices), (Values{0, .2, 0, .5, 1, .5, 0, .9}));
  run_reference(LimitExperts{cut, 2, DropPolicy::kWeight, choices, kept});
  EXPECT_EQ(load_integers(kept), (std::vector<std::int64_t>{-1, 0}));
  run_reference(LimitExperts{cut, 2, DropPolicy::kPosition, choices, kept});
  EXPECT_EQ(load_integers(kept), (std::vector<std::int64_t>{0, -1}));
}

TEST(Grouping, NobodysRowsComeLast) {
  Tensors t;
  const TensorView experts = t.int32({2, -1, 0, 2, -1, 1}).reshape({3, 2});
  const TensorView order = t.empty(DType::kI32, {3, 2}), place = t.empty(DType::kI32, {3, 2}),
                   counts = t.empty(DType::kI32, {1, 3});
  run_reference(GroupByExpert{3, experts, order, place, {}, {}, counts});
  EXPECT_EQ(load_integers(counts), (std::vector<std::int64_t>{1, 1, 2}));
  EXPECT_EQ(load_integers(order), (std::vector<std::int64_t>{2, 5, 0, 3, 1, 4}));
  EXPECT_EQ(load_integers(place), (std::vector<std::int64_t>{2, 4, 0, 3, 5, 1}));
}

// Four experts, eight assignments: the counts are 5, 1, 2, 0.
TEST(ExpertBias, GoesAgainstTheExcess) {
  Tensors t;
  const TensorView excess = t.empty(kF64, {1, 4}), bias = t.of(kF64, {4}, {0.5, 0, 0, 0}), state = t.state(1);
  run_reference(
      CountAssignments{{1, 4, 0}, t.int32({0, 0, 2, 0, 1, 0, 2, 0}).reshape({4, 2}), excess, 4, -8});
  EXPECT_EQ(load(excess), (Values{12, -4, 0, -8}));
  run_reference(ExpertBiasUpdate{bias, excess.reshape({4}), state, 0.01});
  EXPECT_EQ(load(bias), (Values{0.49, 0.01, 0, 0.01}));
}

class RouterGradient : public ::testing::TestWithParam<std::tuple<RouterScore, bool>> {};

// The weights' gradient and the two losses, against differences of their formulas.
TEST_P(RouterGradient, MatchesDifferences) {
  const auto [score, normalize] = GetParam();
  const std::int64_t tokens = 6, experts = 5, k = 2, length = 3;
  const double balance = 0.7, z = 0.2;
  Tensors t;
  RouterForward forward{{score, normalize, 1.5, 1, 1},
                        t.random(kF64, {tokens, experts}, 2),
                        {},
                        t.empty(DType::kI32, {tokens, k}),
                        t.empty(kF64, {tokens, k})};
  run_reference(forward);
  const auto chosen = load_integers(forward.experts);
  const TensorView state = t.state(8);
  run_reference(BeginStep{state, 4});
  const double seed = 8.0 / 4;
  const TokenSequences sequences{tokens / length, length, 0};
  const TensorView counts = t.empty(kF64, {sequences.count, experts});
  run_reference(CountAssignments{sequences, forward.experts, counts});
  const RouterBackward backward{
      forward.options, forward.logits, forward.experts, t.random(kF64, {tokens, k}),     balance, z, length,
      sequences,       counts,         state,           t.empty(kF64, {tokens, experts})};
  run_reference(backward);
  // All of the loss in one scalar.
  const Values dweights = load(backward.dweights);
  const TensorView loss = t.empty(kF64, {1});
  const auto run = [&] {
    run_reference(forward);
    const Values x = load(forward.logits), w = load(forward.weights);
    double total = 0;
    for (std::size_t i = 0; i < w.size(); ++i) total += dweights[i] * w[i];
    for (std::int64_t begin = 0; begin < tokens; begin += length) {
      for (std::int64_t e = 0; e < experts; ++e) {
        double mean = 0, count = 0;
        for (std::int64_t i = begin; i < begin + length; ++i) {
          double sum = 0, own = 0;
          for (std::int64_t other = 0; other < experts; ++other) {
            const double v = x[i * experts + other];
            const double s = score == RouterScore::kSoftmax ? std::exp(v) : 1 / (1 + std::exp(-v));
            sum += s;
            if (other == e) own = s;
          }
          mean += own / sum / static_cast<double>(length);
          for (std::int64_t j = 0; j < k; ++j) count += chosen[i * k + j] == e;
        }
        // Megatron: coefficient E / (k L^2) sum of p times assignments; weighted with the sequence's tokens.
        total += seed * balance * static_cast<double>(experts) / static_cast<double>(k * length) * mean *
                 count * static_cast<double>(length);
      }
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      double sum = 0;
      for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(x[i * experts + e]);
      total += seed * z * std::log(sum) * std::log(sum);
    }
    store({total}, loss);
  };
  expect_gradient(backward.dlogits, numeric_gradient(forward.logits, loss, {1}, run), "dlogits");
}

INSTANTIATE_TEST_SUITE_P(Scores, RouterGradient,
                         ::testing::Combine(::testing::Values(RouterScore::kSoftmax, RouterScore::kSigmoid),
                                            ::testing::Bool()));

TEST(Gradient, RowsOfExperts) {
  Tensors t;
  const TensorView experts = t.int32({2, 0, 0, 2, 1, 2}).reshape({3, 2}),
                   order = t.empty(DType::kI32, {3, 2}), place = t.empty(DType::kI32, {3, 2}),
                   sorted = t.empty(DType::kI32, {3, 2});
  run_reference(GroupByExpert{4, experts, order, place, sorted});
  // Gathering and summing are each other's transposes.
  const TensorView x = t.random(kF64, {3, 5}), y = t.empty(kF64, {6, 5}), dy = t.random(kF64, {6, 5}),
                   dx = t.empty(kF64, {3, 5});
  run_reference(SumRows{dy, place, dx});
  expect_gradient(dx,
                  numeric_gradient(x, y, load(dy),
                                   [&] {
                                     run_reference(GatherRows{x, order, y});
                                   }),
                  "dx");

  const TensorView rows = t.random(kF64, {6, 4}), scaled = t.empty(kF64, {6, 4}),
                   weights = t.random(kF64, {3, 2}), dscaled = t.random(kF64, {6, 4}),
                   drows = t.empty(kF64, {6, 4}), dweights = t.empty(kF64, {3, 2});
  const auto scale = [&] { run_reference(ScaleRows{rows, order, weights, scaled}); };
  run_reference(ScaleRowsBackward{rows, dscaled, order, weights, drows, dweights});
  expect_gradient(drows, numeric_gradient(rows, scaled, load(dscaled), scale), "drows");
  expect_gradient(dweights, numeric_gradient(weights, scaled, load(dscaled), scale), "dweights");

  const TensorView w = t.random(kF64, {4 * 3, 4}), out = t.empty(kF64, {6, 3}), dout = t.random(kF64, {6, 3}),
                   din = t.empty(kF64, {6, 4}), dw = t.random(kF64, {4 * 3, 4});
  const auto forward = [&] { run_reference(GroupedLinearForward{rows, w, sorted, out}); };
  run_reference(GroupedLinearBackwardInput{dout, w, sorted, din});
  expect_gradient(din, numeric_gradient(rows, out, load(dout), forward), "din");
  run_reference(GroupedLinearBackwardWeight{rows, dout, sorted, dw, false});
  expect_gradient(dw, numeric_gradient(w, out, load(dout), forward), "dw");
}

}  // namespace
}  // namespace stoa::ops::testing
