// The operations of a mixture of experts: every backend against the reference.
#include <gmock/gmock.h>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

struct MoeSize {
  std::int64_t tokens, experts, k;
};
constexpr MoeSize kSizes[] = {{1, 2, 1}, {7, 4, 2}, {65, 8, 3}, {130, 5, 5}};

TensorView ids(Tensors& t, const MoeSize& s) { return t.empty(DType::kI32, {s.tokens, s.k}); }

// Experts of random scores, grouped.
struct Groups {
  TensorView experts, order, place, sorted, weights;
};
Groups make_groups(Tensors& t, const MoeSize& s, DType sum = DType::kF32) {
  Groups g{ids(t, s), ids(t, s), ids(t, s), ids(t, s), t.empty(sum, {s.tokens, s.k})};
  run_reference(RouterForward{{}, t.random(sum, {s.tokens, s.experts}), {}, g.experts, g.weights});
  run_reference(GroupByExpert{s.experts, g.experts, g.order, g.place, g.sorted});
  return g;
}

}  // namespace

TEST_P(BackendTest, Router) {
  for (const auto& s : kSizes)
    for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid})
      for (const bool normalize : {false, true}) {
        SCOPED_TRACE(fmt::format("{} tokens, {} of {}, score {}, normalize {}", s.tokens, s.k, s.experts,
                                 static_cast<int>(score), normalize));
        Tensors t;
        const RouterOptions options{score, normalize, 2.5, 1, 1};
        const TensorView logits = t.random(DType::kF32, {s.tokens, s.experts}, 2), experts = ids(t, s);
        expect_like_reference(backend(), RouterForward{options, logits, t.random(DType::kF32, {s.experts}),
                                                       experts, t.empty(DType::kF32, {s.tokens, s.k})});
        const TensorView state = t.state(4);
        run_reference(BeginStep{state, 3});
        const TokenSequences sequences{2, (s.tokens + 1) / 2, 0};
        const TensorView counts = t.empty(DType::kF32, {2, s.experts});
        expect_like_reference(backend(), CountAssignments{sequences, experts, counts});
        run_reference(CountAssignments{sequences, experts, counts});
        const TokenPlaces places{sequences, sequences.run, {}};
        const TensorView choices = t.zeros(DType::kF32, {2 * sequences.run, 2 * s.k});
        expect_like_reference(backend(), PlaceChoices{places, experts, t.random(DType::kF32, {s.tokens, s.k}),
                                                      t.zeros(DType::kF32, choices.shape)});
        expect_like_reference(backend(), LimitExperts{places, 2, DropPolicy::kWeight, choices, ids(t, s)});
        for (const double coefficient : {0.0, 0.3})
          expect_like_reference(
              backend(), RouterBackward{options, logits, experts, t.random(DType::kF32, {s.tokens, s.k}),
                                        coefficient, coefficient, s.tokens, sequences, counts, state,
                                        t.empty(DType::kF32, logits.shape)});
        t.expect_guards();
      }
}

TEST_P(BackendTest, RouterOfGroups) {
  for (const bool biased : {false, true})
    for (const std::int64_t experts : {8, 64, 320}) {
      SCOPED_TRACE(fmt::format("{} experts{}", experts, biased ? ", biased" : ""));
      Tensors t;
      const RouterOptions options{RouterScore::kSigmoid, true, 1, 4, 2};
      // Every second token has equal logits: ties go to the lower index.
      TensorView logits = t.random(DType::kF32, {6, experts}, 2);
      for (const std::int64_t token : {1, 3, 5}) std::fill_n(logits.row<float>(token), experts, 0.5f);
      const TensorView bias = biased ? t.random(DType::kF32, {experts}, 0.1) : TensorView();
      expect_like_reference(backend(), RouterForward{options, logits, bias, t.empty(DType::kI32, {6, 4}),
                                                     t.empty(DType::kF32, {6, 4})});
      t.expect_guards();
    }
}

// Of two whole sequences, or of a rank's two runs of each: 40 tokens, of which it has [5, 15) and [25, 35).
TEST_P(BackendTest, ExpertLimits) {
  for (const bool cut : {false, true})
    for (const DropPolicy policy : {DropPolicy::kWeight, DropPolicy::kPosition})
      for (const std::int64_t capacity : {1, 7, 40}) {
        SCOPED_TRACE(fmt::format("capacity {}{}{}", capacity, cut ? ", cut" : "",
                                 policy == DropPolicy::kWeight ? " by weight" : " by position"));
        Tensors t;
        constexpr std::int64_t kExperts = 70, kTokens = 80, kLength = 40, k = 3;
        const TensorView experts = t.empty(DType::kI32, {kTokens, k}),
                         weights = t.empty(DType::kF32, {kTokens, k});
        TensorView logits = t.random(DType::kF32, {kTokens, kExperts});
        for (std::int64_t token = 0; token < kTokens; ++token) {
          logits.row<float>(token)[69] += 2;  // many choose it
          if (token % 3 == 0) std::fill_n(logits.row<float>(token), kExperts, 0.0f);
        }
        run_reference(RouterForward{{}, logits, {}, experts, weights});
        const TensorView choices = t.zeros(DType::kF32, {kTokens, 2 * k});
        const TokenPlaces whole{{2, kLength, 0}, kLength, {}};
        expect_like_reference(backend(), PlaceChoices{whole, experts, weights, choices});
        run_reference(PlaceChoices{whole, experts, weights, choices});
        const TokenPlaces places = cut ? TokenPlaces{{2, 10, 0}, kLength, {5, 25}} : whole;
        const std::int64_t tokens = cut ? 40 : kTokens;
        expect_like_reference(
            backend(), LimitExperts{places, capacity, policy, choices, t.empty(DType::kI32, {tokens, k})});
        const TensorView kept = t.empty(DType::kI32, {tokens, k});
        run_reference(LimitExperts{places, capacity, policy, choices, kept});
        const TensorView order = t.empty(DType::kI32, {tokens, k}), place = t.empty(DType::kI32, {tokens, k});
        expect_like_reference(backend(),
                              GroupByExpert{kExperts, kept, order, place, t.empty(DType::kI32, {tokens, k})});
        t.expect_guards();
      }
}

// Rows of several members beside each other; fewer come than there is room for.
TEST_P(BackendTest, Arrivals) {
  for (const std::int64_t self : {0, 1, 2}) {
    Tensors t;
    const TensorView counts = t.int32({3, 0, 200, 1, 0, 0, 0, 0, 5, 300, 1, 2}).reshape({3, 4});
    expect_like_reference(
        backend(), GroupArrivals{self, counts, t.empty(DType::kI32, {600, 1}), t.empty(DType::kI32, {600, 1}),
                                 t.empty(DType::kI32, {600, 1})});
    t.expect_guards();
  }
}

TEST_P(BackendTest, ExpertBias) {
  Tensors t;
  const TensorView state = t.state(), bias = t.random(DType::kF32, {300}),
                   excess = t.of(DType::kF32, {300}, Values(300, 0));
  for (std::int64_t e = 0; e < 300; ++e) excess.as<float>()[e] = static_cast<float>(e % 3 - 1);
  expect_like_reference(backend(), ExpertBiasUpdate{bias, excess, state, 0.01});
  Tensors::slot(state, StepSlot::kFoundInf) = 1;
  const TensorView before = t.copy(bias);
  run_on(backend(), ExpertBiasUpdate{bias, excess, state, 0.01});
  EXPECT_EQ(load(bias), load(before));
  t.expect_guards();
}

TEST_P(BackendTest, RowsOfExperts) {
  for (const DType type : kTypes)
    for (const auto& s : kSizes)
      for (const std::int64_t d : {1, 33, 128}) {
        SCOPED_TRACE(
            fmt::format("{}: {} tokens, {} of {}, width {}", name_of(type), s.tokens, s.k, s.experts, d));
        Tensors t;
        const Groups g = make_groups(t, s);
        const std::int64_t rows = s.tokens * s.k;
        expect_like_reference(backend(),
                              GroupByExpert{s.experts, g.experts, ids(t, s), ids(t, s), ids(t, s)});
        const ExpertMembers members{2 * s.experts, 2, 1};
        const TensorView counts = t.empty(DType::kI32, {members.members, 1});
        expect_like_reference(backend(), GroupByExpert{s.experts,
                                                       g.experts,
                                                       t.empty(DType::kI32, {s.tokens, 2 * s.k}),
                                                       t.empty(DType::kI32, {s.tokens, 2 * s.k}),
                                                       {},
                                                       members,
                                                       counts});
        expect_like_reference(
            backend(), GroupArrivals{1, t.int32({1, 0, 0, 1}).reshape({2, 2}), t.empty(DType::kI32, {3, 1}),
                                     t.empty(DType::kI32, {3, 1}), t.empty(DType::kI32, {3, 1})});
        expect_like_reference(backend(),
                              GatherRows{t.random(type, {s.tokens, d}), g.order, t.empty(type, {rows, d})});
        expect_like_reference(backend(),
                              GatherRows{t.random(type, {s.tokens, d}),
                                         g.order.reshape({rows, 1}).slice(rows / 3, (rows + 1) / 2),
                                         t.empty(type, {(rows + 1) / 2, d}), s.k});
        expect_like_reference(backend(),
                              SumRows{t.random(type, {rows, d}), g.place, t.empty(type, {s.tokens, d})});
        const TensorView x = t.random(type, {rows, d});
        expect_like_reference(backend(), ScaleRows{x, g.order, g.weights, t.empty(type, {rows, d})});
        expect_like_reference(
            backend(), ScaleRowsBackward{x, t.random(type, {rows, d}), g.order, g.weights,
                                         t.empty(type, {rows, d}), t.empty(DType::kF32, {s.tokens, s.k})});
        t.expect_guards();
      }
}

// Rows of nobody among them where the first expert takes only two of each sequence.
TEST_P(BackendTest, GroupedLinear) {
  struct Width {
    std::int64_t k, n;
  };
  for (const DType type : kTypes)
    for (const auto& s : kSizes)
      for (const Width& width : {Width{24, 3}, Width{24, 40}, Width{33, 130}, Width{136, 144}}) {
        if (width.k * width.n > 4000 && s.tokens < 65) continue;
        SCOPED_TRACE(fmt::format("{}: {} tokens, {} of {}, {} to {}", name_of(type), s.tokens, s.k, s.experts,
                                 width.k, width.n));
        Tensors t;
        const auto [k, n] = width;
        const Groups g = make_groups(t, s);
        for (std::int64_t a = 0, found = 0; a < g.experts.elements(); ++a)
          if (std::int32_t& id = g.experts.as<std::int32_t>()[a]; id == 0 && ++found > 2) id = -1;
        run_reference(GroupByExpert{s.experts, g.experts, g.order, g.place, g.sorted});
        const std::int64_t rows = s.tokens * s.k;
        const TensorView x = t.random(type, {rows, k}), dy = t.random(type, {rows, n}),
                         w = t.random(type, {s.experts * n, k}, 0.1);
        expect_like_reference(backend(), GroupedLinearForward{x, w, g.sorted, t.empty(type, {rows, n})});
        expect_like_reference(backend(),
                              GroupedLinearBackwardInput{dy, w, g.sorted, t.empty(type, {rows, k})});
        for (const bool accumulate : {false, true}) {
          const TensorView dw = t.random(DType::kF32, {s.experts * n, k});
          expect_like_reference(backend(), GroupedLinearBackwardWeight{x, dy, g.sorted, dw, accumulate});
        }
        t.expect_guards();
      }
}

// The same bits as of all rows at once: what an expert's rows sum to, and each row for itself.
TEST_P(BackendTest, PartsOfAnExpertsRows) {
  constexpr std::int64_t kParts[] = {64, 32, 128, 41}, kRows = 265, kExpert = 2;
  for (const DType type : kTypes)
    for (const auto& [k, n] : {std::pair<std::int64_t, std::int64_t>{24, 40},
                               {33, 130},
                               {136, 144},
                               {64, 3},
                               {3, 130},
                               {200, 16},
                               {1, 1}}) {
      SCOPED_TRACE(fmt::format("{}: {} to {}", name_of(type), k, n));
      Tensors t;
      const TensorView x = t.random(type, {kRows, k}), dy = t.random(type, {kRows, n}),
                       w = t.random(type, {(kExpert + 1) * n, k}, 0.1),
                       sorted = t.empty(DType::kI32, {kRows, 1});
      std::fill_n(sorted.as<std::int32_t>(), kRows, static_cast<std::int32_t>(kExpert));
      const TensorView whole = t.random(DType::kF32, w.shape), added = t.copy(whole),
                       carry = t.random(DType::kF32, {n, k}), y = t.empty(type, {kRows, n}),
                       y_parts = t.empty(type, {kRows, n}), dx = t.empty(type, {kRows, k}),
                       dx_parts = t.empty(type, {kRows, k});
      run_on(backend(), GroupedLinearBackwardWeight{x, dy, sorted, whole});
      run_on(backend(), GroupedLinearForward{x, w, sorted, y});
      run_on(backend(), GroupedLinearBackwardInput{dy, w, sorted, dx});
      std::int64_t begin = 0;
      for (const std::int64_t rows : kParts) {
        const auto part = [&](const TensorView& of) { return of.slice(begin, rows); };
        GroupedLinearBackwardWeight op{part(x), part(dy), part(sorted), carry, begin > 0};
        op.part_of = kExpert;
        if (begin == 0) expect_like_reference(backend(), op);
        run_on(backend(), op);
        run_on(backend(), GroupedLinearForward{part(x), w, part(sorted), part(y_parts)});
        run_on(backend(), GroupedLinearBackwardInput{part(dy), w, part(sorted), part(dx_parts)});
        begin += rows;
      }
      run_on(backend(), AddTo{carry, added.slice(kExpert * n, n)});
      // The reference sums in fp64, and rounds what it has after every part.
      if (GetParam().name == "reference")
        EXPECT_THAT(load(added), ::testing::Pointwise(::testing::DoubleNear(1e-4), load(whole)));
      else
        EXPECT_EQ(load(added), load(whole));
      EXPECT_EQ(load(y_parts), load(y));
      EXPECT_EQ(load(dx_parts), load(dx));
      t.expect_guards();
    }
}

TEST_P(BackendTest, ExpertBiases) {
  for (const DType type : kTypes)
    for (const auto& s : kSizes)
      for (const std::int64_t n : {1, 40, 300}) {
        SCOPED_TRACE(fmt::format("{}: {} tokens, {} of {}, {}", name_of(type), s.tokens, s.k, s.experts, n));
        Tensors t;
        const Groups g = make_groups(t, s);
        for (std::int64_t a = 0, found = 0; a < g.experts.elements(); ++a)
          if (std::int32_t& id = g.experts.as<std::int32_t>()[a]; id == 0 && ++found > 2) id = -1;
        run_reference(GroupByExpert{s.experts, g.experts, g.order, g.place, g.sorted});
        const std::int64_t rows = s.tokens * s.k;
        const TensorView bias = t.random(DType::kF32, {s.experts, n}), y = t.random(type, {rows, n});
        expect_like_reference(backend(), ExpertBias{bias, g.sorted, {}, {}, t.copy(y)});
        expect_like_reference(backend(), ExpertBias{bias, g.sorted, g.order, g.weights, t.copy(y)});
        for (const bool accumulate : {false, true}) {
          const TensorView dbias = t.random(DType::kF32, bias.shape);
          expect_like_reference(backend(),
                                ExpertBiasBackward{y, g.sorted, {}, {}, t.copy(dbias), accumulate});
          expect_like_reference(backend(),
                                ExpertBiasBackward{y, g.sorted, g.order, g.weights, dbias, accumulate});
        }
        expect_like_reference(backend(), ExpertBiasBackwardWeights{y, bias, g.sorted, g.order,
                                                                   t.random(DType::kF32, g.weights.shape)});
        t.expect_guards();
      }
}

}  // namespace stoa::ops::testing
