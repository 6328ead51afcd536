// Loss and update on any backend.
#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

void expect_unchanged(const TensorView& tensor, const TensorView& before) {
  EXPECT_EQ(std::memcmp(tensor.data, before.data, tensor.bytes()), 0) << tensor.text();
}

// State as it is when the update of a clean step begins.
TensorView prepared_state(Tensors& t, double updates, double squares = 7, double tokens = 10) {
  const TensorView state = t.state(8, updates);
  run_reference(BeginStep{state, tokens});
  Tensors::slot(state, StepSlot::kSquares) = squares;
  PrepareUpdate op;
  op.state = state;
  op.max_norm = 0.25;
  op.rate.peak = 0.1;
  op.weight_decay.end = 0.3;
  op.samples = 4;
  run_reference(op);
  return state;
}

}  // namespace

TEST_P(BackendTest, CrossEntropy) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const auto& [tokens, vocabulary, columns] :
         {std::tuple{1, 1, 1}, std::tuple{5, 3, 8}, std::tuple{17, 100, 128}, std::tuple{3, 1000, 1000},
          std::tuple{9, 331, 333}}) {
      for (const bool gradient : {false, true}) {
        for (const double scale : {1.0, 12.0}) {
          SCOPED_TRACE(fmt::format("{}: {} tokens, {} of {}, gradient {}, scale {}", name_of(type), tokens,
                                   vocabulary, columns, gradient, scale));
          Tensors t;
          CrossEntropy op;
          op.logits = t.random(type, {tokens, columns}, scale, 0, 3);
          Values logits = load(op.logits);
          for (std::int64_t i = 0; i < op.logits.elements(); ++i)
            if (i % columns >= vocabulary) logits[i] = 60;  // would win if it were looked at
          store(logits, op.logits);
          op.labels = t.random_int32(tokens, vocabulary);
          op.loss_mask = t.empty(DType::kF32, {tokens});
          for (std::int64_t i = 0; i < tokens; ++i) op.loss_mask.as<float>()[i] = i % 4 == 1 ? 0.0F : 1.0F;
          op.vocabulary = vocabulary;
          op.gradient = gradient;
          if (gradient) {
            op.state = t.state(16);
            run_reference(BeginStep{op.state, 5});
          }
          op.losses = t.empty(DType::kF32, {tokens});
          expect_like_reference(backend(), op);
          expect_like_reference(backend(), SumLosses{op.losses, op.loss_mask, t.state()});
          op.smoothing = 0.1;
          op.z_weight = 1e-3;
          expect_like_reference(backend(), op);

          // The same columns as the third quarter of a vocabulary, beside another rank's part.
          const std::int64_t whole = 4 * vocabulary;
          CrossEntropyPart part{op.logits, t.random_int32(tokens, whole), 2 * vocabulary, vocabulary,
                                t.empty(DType::kF32, {tokens, 4})};
          expect_like_reference(backend(), part);
          for (const double smoothing : {0.0, 0.1}) {
            CrossEntropyMerge merge;
            if (gradient) merge.logits = t.copy(op.logits), merge.state = op.state;
            merge.labels = part.labels;
            merge.loss_mask = op.loss_mask;
            merge.parts = t.random(DType::kF32, {2, tokens, 4});
            run_reference(part);
            Values parts = load(merge.parts);
            const Values own = load(part.part);
            for (std::int64_t i = 0; i < tokens * 4; ++i) {
              if (i % 4 == 1) parts[i] = std::fabs(parts[i]) + 1;
              if (i % 4 == 2 && own[i] != 0) parts[i] = 0;  // one rank alone holds the label
              parts[tokens * 4 + i] = own[i];
            }
            store(parts, merge.parts);
            merge.first_column = part.first_column;
            merge.columns = vocabulary;
            merge.vocabulary = whole;
            merge.losses = op.losses;
            merge.smoothing = smoothing;
            merge.z_weight = smoothing / 100;
            expect_like_reference(backend(), merge);
          }
          t.expect_guards();
        }
      }
    }
  }
}

TEST_P(BackendTest, SumSquares) {
  for (const std::int64_t n : {1, 100, 65536, 65537, 200003}) {
    SCOPED_TRACE(n);
    Tensors t;
    const SumSquares op{t.random(DType::kF32, {n}), t.random(DType::kF64, {(n + 65535) / 65536}), {}};
    expect_like_reference(backend(), op);
    // NaN and infinity must reach the sums and the state.
    const AddSquares add{op.sums, t.state()};
    op.x.as<float>()[n / 2] = std::numeric_limits<float>::infinity();
    run_on(backend(), op);
    run_on(backend(), add);
    EXPECT_TRUE(std::isinf(Tensors::slot(add.state, StepSlot::kSquares)));
    op.x.as<float>()[n - 1] = std::nanf("");
    run_on(backend(), op);
    run_on(backend(), add);
    EXPECT_TRUE(std::isnan(Tensors::slot(add.state, StepSlot::kSquares)));
  }
}

// Parts of a canonical tensor [700, 300] sum to the whole, block by block, whatever the cut.
TEST_P(BackendTest, SumSquaresOfParts) {
  constexpr std::int64_t kRows = 700, kColumns = 300, kBlocks = 4;
  Tensors t;
  const TensorView whole = t.random(DType::kF32, {kRows, kColumns}), sums = t.empty(DType::kF64, {kBlocks});
  const auto zero = [](const TensorView& x) { std::fill_n(x.as<double>(), x.elements(), 0.0); };
  zero(sums);
  run_on(backend(), SumSquares{whole, sums, {}});
  const TensorView parts = t.empty(DType::kF64, {kBlocks});
  const auto add_part = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                            std::int64_t skip, std::int64_t count) {
    const TensorView local = t.empty(DType::kF32, {rows, columns});
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(whole.row<float>(row + r) + column, columns, local.row<float>(r));
    SumSquares op;
    op.x = TensorView(local.as<float>() + skip, DType::kF32, {count});
    op.cut = {row * kColumns + column, skip, columns, kColumns};
    op.sums = parts.slice(op.first_block(), op.blocks());
    run_on(backend(), op);
  };
  const auto expect_whole = [&] {
    for (std::int64_t b = 0; b < kBlocks; ++b)
      EXPECT_NEAR(parts.as<double>()[b], sums.as<double>()[b], 1e-10 * sums.as<double>()[b]) << b;
    zero(parts);
  };
  zero(parts);
  add_part(0, 301, 0, kColumns, 0, 301 * kColumns);  // rows
  add_part(301, 399, 0, kColumns, 0, 399 * kColumns);
  expect_whole();
  add_part(0, kRows, 0, 77, 0, kRows * 77);  // columns
  add_part(0, kRows, 77, 223, 0, kRows * 223);
  expect_whole();
  add_part(0, kRows, 0, 77, 0, 40001);  // columns, each part in flat ranges
  add_part(0, kRows, 0, 77, 40001, kRows * 77 - 40001);
  add_part(0, kRows, 77, 223, 0, 7);
  add_part(0, kRows, 77, 223, 7, kRows * 223 - 7);
  expect_whole();
  add_part(0, kRows, 77, 223, 7, kRows * 223 - 7);  // a part that is left out is missed
  EXPECT_LT(parts.as<double>()[0], sums.as<double>()[0] * 0.9);
  EXPECT_EQ(parts.elements(), kBlocks);
}

TEST_P(BackendTest, BeginStepAndPrepareUpdate) {
  Tensors t;
  const TensorView state = t.state(1024);
  expect_like_reference(backend(), BeginStep{state, 100});
  Tensors::slot(state, StepSlot::kSquares) = 5;
  PrepareUpdate op;
  op.state = state;
  op.max_norm = 1e-4;
  op.rate = {RateDecay::kCosine, StableDecay::kExponential, 0, 1, 0.1, 10, 100, 0};
  op.weight_decay = {WeightDecayRamp::kLinear, 0, 0.1, 50};
  op.loss_scale.dynamic = true;
  op.samples = 8;
  for (int step = 0; step < 5; ++step) expect_like_reference(backend(), op);
}

TEST_P(BackendTest, AdamUpdate) {
  for (const std::int64_t n : {1, 1003, 70001}) {
    for (const bool decoupled : {true, false}) {
      for (const int compute : {0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{} elements, decoupled {}, compute {}", n, decoupled, compute));
        Tensors t;
        AdamUpdate op;
        op.master = t.random(DType::kF32, {n});
        if (compute) op.compute = t.empty(compute == 1 ? DType::kBF16 : DType::kF16, {n});
        op.m = t.zeros(DType::kF32, {n});
        op.v = t.zeros(DType::kF32, {n});
        op.decoupled = decoupled;
        op.rate_factor = 0.5;
        op.decay_factor = compute == 1 ? 0 : 1;
        for (int step = 0; step < 3; ++step) {
          op.gradient = t.random(DType::kF32, {n}, 3);
          op.state = prepared_state(t, step);
          expect_like_reference(backend(), op);
        }
        // A step that is skipped leaves everything as it is.
        op.state = prepared_state(t, 3, std::numeric_limits<double>::infinity());
        const TensorView master = t.copy(op.master), m = t.copy(op.m), v = t.copy(op.v);
        run_on(backend(), op);
        expect_unchanged(op.master, master);
        expect_unchanged(op.m, m);
        expect_unchanged(op.v, v);
        t.expect_guards();
      }
    }
  }
}

TEST_P(BackendTest, SgdUpdate) {
  for (const std::int64_t n : {1, 1003, 70001}) {
    for (const bool momentum : {false, true}) {
      for (const int compute : {0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{} elements, momentum {}, compute {}", n, momentum, compute));
        Tensors t;
        SgdUpdate op;
        op.master = t.random(DType::kF32, {n});
        if (compute) op.compute = t.empty(compute == 1 ? DType::kBF16 : DType::kF16, {n});
        if (momentum) op.momentum = t.zeros(DType::kF32, {n});
        op.momentum_factor = momentum ? 0.9 : 0;
        for (int step = 0; step < 3; ++step) {
          op.gradient = t.random(DType::kF32, {n}, 3);
          op.state = prepared_state(t, step);
          expect_like_reference(backend(), op);
        }
        op.state = prepared_state(t, 3, 1, 0);  // no tokens
        const TensorView master = t.copy(op.master);
        run_on(backend(), op);
        expect_unchanged(op.master, master);
        t.expect_guards();
      }
    }
  }
}

}  // namespace stoa::ops::testing
