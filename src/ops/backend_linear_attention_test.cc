// Linear attention: every backend that has the operations, against the recurrence of the reference.
#include "ops/backend_suite.h"
#include "ops/linear_attention_cases.h"

namespace stoa::ops::testing {
namespace {

constexpr const char* kNoKernels = "linear attention has no kernels on GPUs";

// Through many tokens errors of the type in which sums are kept add up.
Tolerance chunked() {
  Tolerance tolerance;
  tolerance.sum_ulps = 2048;
  return tolerance;
}

const std::vector<DeltaCase>& delta_cases() {
  static const std::vector<DeltaCase> all{{"small", 2, 4, 3, 5, {6, 3}, 1, 3},
                                          {"one chunk", 1, 2, 16, 16, {64}},
                                          {"chunks", 2, 2, 32, 48, {130, 1, 64, 65}, 2},
                                          {"odd", 1, 3, 19, 70, {63, 129}, 0, 7},
                                          {"wide", 1, 1, 128, 128, {150}},
                                          {"one token", 4, 8, 20, 12, {1, 1, 1}}};
  return all;
}

}  // namespace

TEST_P(BackendTest, ShortConvolution) {
  if (backend().name() == "cuda") GTEST_SKIP() << kNoKernels;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t columns : {1, 7, 64, 200})
      for (const std::int64_t taps : {1, 2, 4, 9}) {
        SCOPED_TRACE(fmt::format("{} {} columns, {} taps", name_of(type), columns, taps));
        Tensors t;
        ShortConvForward forward{make_texts(t, {5, 1, 40, 2}, 3),
                                 t.random(type, {51, columns}, 1, 5),
                                 t.random(DType::kF32, {columns, taps}),
                                 {},
                                 t.empty(type, {51, columns}, 3)};
        expect_like_reference(backend(), forward);
        forward.state = t.random(DType::kF32, {4, taps - 1, columns});
        expect_like_reference(backend(), forward);
        for (const bool accumulate : {false, true})
          expect_like_reference(
              backend(), ShortConvBackward{forward.texts, forward.x, forward.weight,
                                           t.random(type, {51, columns}), t.empty(type, {51, columns}, 1),
                                           t.random(DType::kF32, {columns, taps}), accumulate});
        t.expect_guards();
      }
}

TEST_P(BackendTest, GatedDeltaRule) {
  if (backend().name() == "cuda") GTEST_SKIP() << kNoKernels;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (DeltaCase c : delta_cases())
      for (const bool with_state : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {}{}", name_of(type), c.name, with_state ? " with state" : ""));
        Tensors t;
        c.with_state = with_state;
        const GatedDeltaForward forward = make_delta(t, c, type);
        expect_like_reference(backend(), forward, chunked());
        if (!with_state) expect_like_reference(backend(), make_backward(t, forward, c.gap > 0), chunked());
        t.expect_guards();
      }
}

// Gates so strong that products of them vanish, and none at all.
TEST_P(BackendTest, GatedDeltaRuleWithExtremeGates) {
  if (backend().name() == "cuda") GTEST_SKIP() << kNoKernels;
  // Sums of gates of a thousand and more are exact to 1e-4; what is left after them is as good as nothing.
  Tolerance tolerance = chunked();
  tolerance.cancelled = 1;
  for (const double a : {-60.0, 40.0, 400.0}) {
    SCOPED_TRACE(a);
    Tensors t;
    GatedDeltaForward forward = make_delta(t, {"", 1, 2, 8, 16, {100}}, DType::kF32);
    forward.a = t.random(DType::kF32, forward.a.shape, 0.1, 0, a);
    expect_like_reference(backend(), forward, tolerance);
    expect_like_reference(backend(), make_backward(t, forward, false), tolerance);
  }
}

}  // namespace stoa::ops::testing
