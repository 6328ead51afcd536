// Distillation's losses: gradients of the reference by differences, and every backend against it.
#include <algorithm>
#include <array>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

constexpr std::array kDivergences{
    Divergence{DivergenceKind::kForward, 1, 0.5}, Divergence{DivergenceKind::kForward, 2.5, 0.5},
    Divergence{DivergenceKind::kReverse, 0.7, 0.5}, Divergence{DivergenceKind::kMixture, 1.5, 0.3}};

// The three steps on one rank that has all columns.
struct WholeDivergence {
  WholeDivergence(Tensors& t, DType type, std::int64_t tokens, std::int64_t columns, std::int64_t width,
                  const Divergence& divergence, double scale)
      : accumulation(type == kF64 ? kF64 : DType::kF32) {
    logits = t.random(type, {tokens, width}, scale, 0);
    teacher = t.random(type, {tokens, width}, scale, 0);
    part = {logits, teacher, columns, divergence.temperature, t.empty(accumulation, {tokens, 4})};
    const TensorView parts = part.part.reshape({1, tokens, 4});
    sums = {logits, teacher, parts, columns, divergence, t.empty(accumulation, {tokens, 2})};
    mask = t.empty(DType::kF32, {tokens});
    for (std::int64_t i = 0; i < tokens; ++i) mask.as<float>()[i] = i % 4 == 1 ? 0.0F : 1.5F;
    state = t.state(16);
    run_reference(BeginStep{state, 5});
    merge = {.logits = logits,
             .teacher = teacher,
             .parts = parts,
             .sums = sums.sums.reshape({1, tokens, 2}),
             .loss_mask = mask,
             .columns = columns,
             .divergence = divergence,
             .state = state,
             .gradient = t.empty(type, {tokens, width}),
             .losses = t.empty(accumulation, {tokens})};
  }
  void run() const {
    run_reference(part);
    run_reference(sums);
    run_reference(merge);
  }

  DType accumulation;
  TensorView logits, teacher, mask, state;
  DivergencePart part;
  DivergenceSums sums;
  DivergenceMerge merge;
};

}  // namespace

TEST(Gradient, Divergence) {
  for (const Divergence& divergence : kDivergences) {
    SCOPED_TRACE(static_cast<int>(divergence.kind));
    Tensors t;
    const WholeDivergence whole(t, kF64, 3, 7, 8, divergence, 2);
    whole.run();
    const double seed = Tensors::slot(whole.state, StepSlot::kLossSeed);
    Values weights;
    for (int i = 0; i < 3; ++i) weights.push_back(seed * static_cast<double>(whole.mask.as<float>()[i]));
    const Values gradient = load(whole.merge.gradient);
    const Values expected = numeric_gradient(whole.logits, whole.merge.losses, weights, [&] { whole.run(); });
    whole.run();
    expect_gradient(whole.merge.gradient, expected, "dlogits");
    for (const double loss : load(whole.merge.losses)) EXPECT_GT(loss, 0);
    for (int row = 0; row < 3; ++row) EXPECT_EQ(gradient[row * 8 + 7], 0) << "padding";
    // A student that predicts what its teacher does.
    store(load(whole.teacher), whole.logits);
    whole.run();
    for (const double loss : load(whole.merge.losses)) EXPECT_NEAR(loss, 0, 1e-14);
    for (const double slope : load(whole.merge.gradient)) EXPECT_NEAR(slope, 0, 1e-14);
  }
}

// Of torch 2.x in fp64: kl_div of log_softmax([1, -2, .5] / T) and log_softmax([0, 1, -1] / T), times T T.
TEST(Divergence, EqualsTorch) {
  struct Known {
    Divergence divergence;
    double loss;
  };
  for (const auto& [divergence, loss] : {Known{{DivergenceKind::kForward, 1, 0.5}, 1.712939474412},
                                         {{DivergenceKind::kForward, 2, 0.5}, 1.9208894682601043},
                                         {{DivergenceKind::kReverse, 1, 0.5}, 0.9658696199647011},
                                         {{DivergenceKind::kMixture, 1, 0.3}, 0.24429062375200797}}) {
    Tensors t;
    const WholeDivergence whole(t, kF64, 1, 3, 3, divergence, 1);
    store({1, -2, 0.5}, whole.logits);
    store({0, 1, -1}, whole.teacher);
    whole.run();
    EXPECT_NEAR(load(whole.merge.losses)[0], loss, 1e-12);
  }
}

// A vocabulary of 7 cut into 3, 2 and 2 columns gives the losses and gradients of the whole.
TEST(Gradient, DivergenceOfASplitVocabulary) {
  for (const Divergence& divergence : kDivergences) {
    SCOPED_TRACE(static_cast<int>(divergence.kind));
    Tensors t;
    const WholeDivergence whole(t, kF64, 5, 7, 7, divergence, 3);
    whole.run();
    const Values losses = load(whole.merge.losses), gradient = load(whole.merge.gradient);
    const std::int64_t first[] = {0, 3, 5, 7};
    const TensorView parts = t.empty(kF64, {3, 5, 4}), sums = t.empty(kF64, {3, 5, 2});
    const auto columns_of = [&](const TensorView& all, std::int64_t r) {
      const Values values = load(all);
      const std::int64_t count = first[r + 1] - first[r];
      Values own;
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t c = 0; c < count; ++c) own.push_back(values[i * 7 + first[r] + c]);
        own.push_back(99);  // padding
      }
      return t.of(kF64, {5, count + 1}, own);
    };
    std::array<TensorView, 3> students, teachers;
    for (std::int64_t r = 0; r < 3; ++r) {
      students[r] = columns_of(whole.logits, r), teachers[r] = columns_of(whole.teacher, r);
      run_reference(DivergencePart{students[r], teachers[r], first[r + 1] - first[r], divergence.temperature,
                                   parts.slice(r, 1).reshape({5, 4})});
    }
    for (std::int64_t r = 0; r < 3; ++r)
      run_reference(DivergenceSums{students[r], teachers[r], parts, first[r + 1] - first[r], divergence,
                                   sums.slice(r, 1).reshape({5, 2})});
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::int64_t count = first[r + 1] - first[r];
      DivergenceMerge merge = whole.merge;
      merge.logits = merge.gradient = students[r];  // in place
      merge.teacher = teachers[r];
      merge.parts = parts, merge.sums = sums;
      merge.columns = count;
      merge.losses = t.empty(kF64, {5});
      run_reference(merge);
      const Values got = load(merge.gradient), got_losses = load(merge.losses);
      for (std::int64_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(got_losses[i], losses[i], 1e-12);
        for (std::int64_t c = 0; c < count; ++c)
          EXPECT_NEAR(got[i * (count + 1) + c], gradient[i * 7 + first[r] + c], 1e-13);
        EXPECT_EQ(got[i * (count + 1) + count], 0) << "padding";
      }
    }
  }
}

// A GPU refuses them (ops/cuda/refused.cc).
TEST_P(BackendTest, Divergence) {
  if (backend().name() == "cuda") GTEST_SKIP();
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const auto& [tokens, columns, width] :
         {std::tuple{1, 1, 1}, std::tuple{5, 3, 8}, std::tuple{17, 100, 128}, std::tuple{9, 331, 333}})
      for (const Divergence& divergence : kDivergences)
        for (const double scale : {1.0, 6.0}) {
          SCOPED_TRACE(fmt::format("{}: {} tokens, {} of {} columns, kind {}, scale {}", name_of(type),
                                   tokens, columns, width, static_cast<int>(divergence.kind), scale));
          Tensors t;
          const WholeDivergence whole(t, type, tokens, columns, width, divergence, scale);
          whole.run();
          // What cancels: logarithms of probabilities, as large as the logits, and the sums of two.
          Tolerance tolerance;
          tolerance.inner = DType::kF32;
          tolerance.inner_ulps = 64;
          tolerance.cancelled = 8 * scale / divergence.temperature + 8;
          expect_like_reference(backend(), whole.part, tolerance);
          expect_like_reference(backend(), whole.sums, tolerance);
          expect_like_reference(backend(), whole.merge, tolerance);
          DivergenceMerge in_place = whole.merge;
          in_place.gradient = in_place.teacher;
          expect_like_reference(backend(), in_place, tolerance);
          t.expect_guards();
        }
}

}  // namespace stoa::ops::testing
