// The operations of a mixture of experts: every backend against the reference.
#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

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
                              SumRows{t.random(type, {rows, d}), g.place, t.empty(type, {s.tokens, d})});
        const TensorView x = t.random(type, {rows, d});
        expect_like_reference(backend(), ScaleRows{x, g.order, g.weights, t.empty(type, {rows, d})});
        expect_like_reference(
            backend(), ScaleRowsBackward{x, t.random(type, {rows, d}), g.order, g.weights,
                                         t.empty(type, {rows, d}), t.empty(DType::kF32, {s.tokens, s.k})});
        t.expect_guards();
      }
}

TEST_P(BackendTest, GroupedLinear) {
  for (const DType type : kTypes)
    for (const auto& s : kSizes)
      for (const std::int64_t n : {3, 40}) {
        SCOPED_TRACE(
            fmt::format("{}: {} tokens, {} of {}, {} outputs", name_of(type), s.tokens, s.k, s.experts, n));
        Tensors t;
        const Groups g = make_groups(t, s);
        const std::int64_t rows = s.tokens * s.k, k = 24;
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

}  // namespace stoa::ops::testing
