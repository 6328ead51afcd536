// Divergences from what was kept of a teacher: gradients of the reference by differences, every backend
// against it, and the divergence from a teacher beside the student where all tokens are kept.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

constexpr std::array kKeptDivergences{
    Divergence{DivergenceKind::kForward, 1, 0.5}, Divergence{DivergenceKind::kForward, 2.5, 0.5},
    Divergence{DivergenceKind::kReverse, 0.7, 0.5}, Divergence{DivergenceKind::kMixture, 1.5, 0.3}};

// What is kept of a row of logits: the largest `top`, in the order of their ids, and the rest.
struct KeptRow {
  KeptRow(const double* logits, std::int64_t columns, std::int64_t top) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(columns));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
    double all = 0, rest = 0;
    for (std::int64_t i = 0; i < columns; ++i) all += std::exp(logits[i]);
    for (std::int64_t i = top; i < columns; ++i) rest += std::exp(logits[order[static_cast<std::size_t>(i)]]);
    ids.assign(order.begin(), order.begin() + top);
    std::sort(ids.begin(), ids.end());
    for (const std::int32_t id : ids) values.push_back(logits[id] - std::log(all));
    values.push_back(std::log(rest) - std::log(all));
  }
  std::vector<std::int32_t> ids;
  Values values;
};

// Both steps on one rank that has all columns.
struct WholeKept {
  WholeKept(Tensors& t, DType type, std::int64_t tokens, std::int64_t columns, std::int64_t width,
            std::int64_t top, const Divergence& divergence, double scale)
      : accumulation(type == kF64 ? kF64 : DType::kF32) {
    logits = t.random(type, {tokens, width}, scale, 0);
    teacher = t.random(kF64, {tokens, width}, scale, 0);
    ids = t.empty(DType::kI32, {tokens, top});
    kept = t.empty(DType::kF32, {tokens, top + 1});
    for (std::int64_t i = 0; i < tokens; ++i) {
      const KeptRow row(teacher.row<double>(i), columns, top);
      std::copy(row.ids.begin(), row.ids.end(), ids.row<std::int32_t>(i));
      for (std::size_t c = 0; c < row.values.size(); ++c)
        kept.row<float>(i)[c] = static_cast<float>(row.values[c]);
    }
    mask = t.empty(DType::kF32, {tokens});
    for (std::int64_t i = 0; i < tokens; ++i) mask.as<float>()[i] = i % 4 == 1 ? 0.0F : 1.5F;
    state = t.state(16);
    run_reference(BeginStep{state, 5});
    part = {logits, ids, mask, 0, columns, t.empty(accumulation, {tokens, top + 2})};
    merge = {.logits = logits,
             .ids = ids,
             .log_probabilities = kept,
             .parts = part.part.reshape({1, tokens, top + 2}),
             .loss_mask = mask,
             .first_column = 0,
             .columns = columns,
             .vocabulary = columns,
             .divergence = divergence,
             .state = state,
             .gradient = t.empty(type, {tokens, width}),
             .losses = t.empty(accumulation, {tokens})};
  }
  void run() const {
    run_reference(part);
    run_reference(merge);
  }

  DType accumulation;
  TensorView logits, teacher, ids, kept, mask, state;
  KeptPart part;
  KeptMerge merge;
};

}  // namespace

TEST(Gradient, KeptDivergence) {
  for (const Divergence& divergence : kKeptDivergences)
    for (const std::int64_t top : {1, 3, 6, 7}) {
      SCOPED_TRACE(fmt::format("kind {}, {} kept of 7", static_cast<int>(divergence.kind), top));
      Tensors t;
      const WholeKept whole(t, kF64, 3, 7, 8, top, divergence, 2);
      whole.run();
      const double seed = Tensors::slot(whole.state, StepSlot::kLossSeed);
      Values weights;
      for (int i = 0; i < 3; ++i) weights.push_back(seed * static_cast<double>(whole.mask.as<float>()[i]));
      const Values expected =
          numeric_gradient(whole.logits, whole.merge.losses, weights, [&] { whole.run(); });
      whole.run();
      expect_gradient(whole.merge.gradient, expected, "dlogits");
      const Values losses = load(whole.merge.losses), gradient = load(whole.merge.gradient);
      EXPECT_GT(losses[0], 0);
      EXPECT_EQ(losses[1], 0) << "not trained";
      for (int row = 0; row < 3; ++row) EXPECT_EQ(gradient[row * 8 + 7], 0) << "padding";
      // A student that predicts what its teacher does; the kept numbers are fp32.
      store(load(whole.teacher), whole.logits);
      whole.run();
      for (const double loss : load(whole.merge.losses)) EXPECT_NEAR(loss, 0, 1e-12);
      for (const double slope : load(whole.merge.gradient)) EXPECT_NEAR(slope, 0, 1e-6);
      // Only the losses.
      KeptMerge alone = whole.merge;
      alone.gradient = alone.state = {};
      alone.losses = t.empty(kF64, {3});
      run_reference(alone);
      EXPECT_EQ(load(alone.losses), load(whole.merge.losses));
    }
}

// Everything kept: the divergence from the whole predictions.
TEST(KeptDivergence, OfAllTokensIsThatOfATeacherBeside) {
  for (const Divergence& divergence : kKeptDivergences) {
    SCOPED_TRACE(static_cast<int>(divergence.kind));
    Tensors t;
    const WholeKept whole(t, kF64, 5, 7, 7, 7, divergence, 3);
    whole.run();
    const TensorView part = t.empty(kF64, {5, 4}), sums = t.empty(kF64, {5, 2}), losses = t.empty(kF64, {5}),
                     gradient = t.empty(kF64, {5, 7});
    run_reference(DivergencePart{whole.logits, whole.teacher, 7, divergence.temperature, part});
    run_reference(DivergenceSums{whole.logits, whole.teacher, part.reshape({1, 5, 4}), 7, divergence, sums});
    run_reference(DivergenceMerge{whole.logits, whole.teacher, part.reshape({1, 5, 4}),
                                  sums.reshape({1, 5, 2}), whole.mask, 7, divergence, whole.state, gradient,
                                  losses});
    const Values got = load(whole.merge.losses), expected = load(losses);
    for (int i = 0; i < 5; ++i)
      if (whole.mask.as<float>()[i] != 0) {
        EXPECT_NEAR(got[i], expected[i], 1e-6 * (1 + expected[i]));
      }
    const Values got_slopes = load(whole.merge.gradient), slopes = load(gradient);
    for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(got_slopes[i], slopes[i], 1e-5);
  }
}

// By hand: student softmax (1/2, 1/4, 1/8, 1/8), teacher (1/4, 1/2, 1/8, 1/8), two kept: classes of (1/2,
// 1/4, 1/4) and (1/4, 1/2, 1/4).
TEST(KeptDivergence, IsThatOfTheClasses) {
  Tensors t;
  const WholeKept whole(t, kF64, 1, 4, 4, 2, {DivergenceKind::kForward, 1, 0.5}, 1);
  store({std::log(4.0), std::log(2.0), 0, 0}, whole.logits);
  whole.ids.as<std::int32_t>()[0] = 0, whole.ids.as<std::int32_t>()[1] = 1;
  const float kept[] = {std::log(0.25F), std::log(0.5F), std::log(0.25F)};
  std::copy_n(kept, 3, whole.kept.as<float>());
  whole.run();
  EXPECT_NEAR(load(whole.merge.losses)[0], 0.25 * std::log(2.0), 1e-7);
  const double unit = 1.5 * Tensors::slot(whole.state, StepSlot::kLossSeed);
  const Values gradient = load(whole.merge.gradient);
  EXPECT_NEAR(gradient[0], 0.25 * unit, 1e-6);
  EXPECT_NEAR(gradient[1], -0.25 * unit, 1e-6);
  EXPECT_NEAR(gradient[2], 0, 1e-6);  // together they have what the teacher gives them
}

// A vocabulary of 7 cut into 3, 2 and 2 columns gives the losses and gradients of the whole.
TEST(Gradient, KeptDivergenceOfASplitVocabulary) {
  for (const Divergence& divergence : kKeptDivergences)
    for (const std::int64_t top : {1, 3, 6, 7}) {
      SCOPED_TRACE(fmt::format("kind {}, {} kept of 7", static_cast<int>(divergence.kind), top));
      Tensors t;
      const WholeKept whole(t, kF64, 5, 7, 7, top, divergence, 3);
      whole.run();
      const Values losses = load(whole.merge.losses), gradient = load(whole.merge.gradient),
                   logits = load(whole.logits);
      const std::int64_t first[] = {0, 3, 5, 7};
      const TensorView parts = t.empty(kF64, {3, 5, top + 2});
      std::array<TensorView, 3> students;
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t count = first[r + 1] - first[r];
        Values own;
        for (std::int64_t i = 0; i < 5; ++i) {
          for (std::int64_t c = 0; c < count; ++c) own.push_back(logits[i * 7 + first[r] + c]);
          own.push_back(99);  // padding
        }
        students[r] = t.of(kF64, {5, count + 1}, own);
        run_reference(KeptPart{students[r], whole.ids, whole.mask, first[r], count,
                               parts.slice(r, 1).reshape({5, top + 2})});
      }
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t count = first[r + 1] - first[r];
        KeptMerge merge = whole.merge;
        merge.logits = merge.gradient = students[r];  // in place
        merge.parts = parts;
        merge.first_column = first[r];
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
TEST_P(BackendTest, KeptDivergence) {
  if (backend().name() == "cuda") GTEST_SKIP();
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const auto& [tokens, columns, width, top] :
         {std::tuple{1, 1, 1, 1}, std::tuple{5, 3, 8, 2}, std::tuple{17, 100, 128, 8},
          std::tuple{9, 331, 333, 64}, std::tuple{9, 40, 48, 40}})
      for (const Divergence& divergence : kKeptDivergences)
        for (const double scale : {1.0, 6.0}) {
          SCOPED_TRACE(fmt::format("{}: {} tokens, {} of {} columns, {} kept, kind {}, scale {}",
                                   name_of(type), tokens, columns, width, top,
                                   static_cast<int>(divergence.kind), scale));
          Tensors t;
          const WholeKept whole(t, type, tokens, columns, width, top, divergence, scale);
          whole.run();
          // What cancels: logarithms of probabilities, as large as the logits, and the sums of two.
          Tolerance tolerance;
          tolerance.inner = DType::kF32;
          tolerance.inner_ulps = 64;
          tolerance.cancelled = 8 * scale / divergence.temperature + 8;
          expect_like_reference(backend(), whole.part, tolerance);
          expect_like_reference(backend(), whole.merge, tolerance);
          KeptMerge in_place = whole.merge;
          in_place.gradient = in_place.logits;
          expect_like_reference(backend(), in_place, tolerance);
          KeptMerge alone = whole.merge;
          alone.gradient = alone.state = {};
          expect_like_reference(backend(), alone, tolerance);
          t.expect_guards();
        }
}

}  // namespace stoa::ops::testing
