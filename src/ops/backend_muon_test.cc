// The operations of Muon: every backend that has them against the reference.
#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

// Of an update with clipped gradients; skipped without tokens.
TensorView state_of_step(Tensors& t, int updates, double tokens = 5) {
  const TensorView state = t.state(1, updates);
  run_reference(BeginStep{state, tokens});
  Tensors::slot(state, StepSlot::kSquares) = 4;
  PrepareUpdate prepare;
  prepare.state = state;
  prepare.max_norm = 0.5;
  prepare.rate.peak = prepare.rate.minimum = 0.01;
  prepare.weight_decay.start = prepare.weight_decay.end = 0.1;
  run_reference(prepare);
  return state;
}

}  // namespace

TEST_P(BackendTest, Muon) {
  for (const std::int64_t n : {1, 1003, 70001})
    for (const bool nesterov : {false, true}) {
      SCOPED_TRACE(fmt::format("{} elements, nesterov {}", n, nesterov));
      Tensors t;
      const TensorView momentum = t.zeros(DType::kF32, {n}), x = t.random(DType::kF32, {n}),
                       master = t.random(DType::kF32, {n});
      for (int step = 0; step < 3; ++step) {
        const TensorView state = state_of_step(t, step);
        expect_like_reference(backend(), MuonMomentum{t.random(DType::kF32, {n}, 3), momentum,
                                                      t.empty(DType::kF32, {n}), state, 0.9, nesterov});
        expect_like_reference(backend(), MuonUpdate{master, t.empty(DType::kBF16, {n}), x, state, 0.2, 0.5});
      }
      expect_like_reference(backend(), UnitNorm{x, t.empty(DType::kF32, {n})});
      const TensorView skipped = state_of_step(t, 3, 0), before = t.copy(master);
      run_on(backend(), MuonUpdate{master, {}, x, skipped, 0.2, 0.5});
      EXPECT_EQ(load(master), load(before));
      t.expect_guards();
    }
}

}  // namespace stoa::ops::testing
