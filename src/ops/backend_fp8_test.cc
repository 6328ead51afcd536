// 8-bit products: every backend that has them against the reference. Codes and scales are equal in every bit.
#include <algorithm>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct MatrixSize {
  std::int64_t rows, columns, gap;
};
constexpr MatrixSize kMatrixSizes[] = {{1, 1, 0},    {3, 5, 0},    {17, 33, 3},   {16, 64, 0},
                                       {130, 72, 8}, {64, 128, 0}, {257, 320, 0}, {9, 1000, 24}};

void expect_same_bytes(const TensorView& got, const TensorView& expected, const char* name) {
  EXPECT_EQ(std::memcmp(got.data, expected.data, expected.bytes()), 0) << name;
}

// Both forms of a matrix in 8 bits.
Quantize quantize_of(Tensors& t, const TensorView& x, const TensorView& amax, DType type) {
  return {.x = x,
          .amax = amax,
          .y = t.empty(type, x.shape),
          .transposed = t.empty(type, {x.shape[1], Quantize::padded(x.shape[0])}),
          .inverse_scale = t.empty(accumulation_type(x.dtype), {1}),
          .seen = {}};
}

}  // namespace

TEST_P(BackendTest, AbsoluteMax) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (DType type : kTypes)
    for (const auto& s : kMatrixSizes) {
      SCOPED_TRACE(fmt::format("{}: {} {}", name_of(type), s.rows, s.columns));
      Tensors t;
      const TensorView x = t.random(type, {s.rows, s.columns}, 1, s.gap), amax = t.empty(DType::kF32, {1});
      run_on(backend(), AbsoluteMax{x, amax});
      Values values = load(x);
      double largest = 0;
      for (const double value : values) largest = std::max(largest, std::fabs(value));
      EXPECT_EQ(load(amax)[0], largest);
      for (const std::size_t at : {std::size_t{0}, values.size() / 2, values.size() - 1}) {
        values[at] = -2 * largest;
        store(values, x);
        run_on(backend(), AbsoluteMax{x, amax});
        EXPECT_EQ(load(amax)[0], std::fabs(load(x)[at]));
        largest *= 2;
      }
      values[0] = -kInfinity;
      store(values, x);
      run_on(backend(), AbsoluteMax{x, amax});
      EXPECT_EQ(load(amax)[0], kInfinity);
      values.back() = std::numeric_limits<double>::quiet_NaN();
      store(values, x);
      run_on(backend(), AbsoluteMax{x, amax});
      EXPECT_TRUE(std::isnan(load(amax)[0]));
      t.expect_guards();
    }
}

TEST_P(BackendTest, AbsoluteMaxOfNothing) {
  Tensors t;
  const TensorView amax = t.empty(DType::kF32, {1});
  run_on(backend(), AbsoluteMax{t.empty(DType::kBF16, {0, 16}), amax});
  EXPECT_EQ(load(amax)[0], 0);
}

TEST_P(BackendTest, Quantize) {
  for (DType type : kTypes)
    for (DType to : {DType::kE4M3, DType::kE5M2})
      for (const auto& s : kMatrixSizes)
        for (const double amax : {-1.0, 0.5, 0.0, 1e-30}) {  // below 0: its own
          SCOPED_TRACE(
              fmt::format("{} -> {}: {} {}, amax {}", name_of(type), name_of(to), s.rows, s.columns, amax));
          Tensors t;
          const TensorView x = t.random(type, {s.rows, s.columns}, 0.3, s.gap);
          const TensorView largest = t.of(DType::kF32, {1}, {amax});
          if (amax < 0) run_reference(AbsoluteMax{x, largest});
          Quantize op = quantize_of(t, x, largest, to), expected = quantize_of(t, x, largest, to);
          op.margin = expected.margin = static_cast<int>(s.rows % 3);
          run_on(backend(), op);
          run_reference(expected);
          expect_same_bytes(op.y, expected.y, "y");
          expect_same_bytes(op.transposed, expected.transposed, "transposed");
          expect_same_bytes(op.inverse_scale, expected.inverse_scale, "inverse_scale");
          for (const bool plain : {false, true}) {
            Quantize one = quantize_of(t, x, largest, to);
            one.margin = op.margin;
            (plain ? one.transposed : one.y) = {};
            run_on(backend(), one);
            if (plain)
              expect_same_bytes(one.y, expected.y, "y alone");
            else
              expect_same_bytes(one.transposed, expected.transposed, "transposed alone");
          }
          t.expect_guards();
        }
}

// What delayed scaling asks beside the cast: no more than AbsoluteMax of the same matrix would say.
TEST_P(BackendTest, QuantizeSeesTheLargestMagnitude) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  for (DType type : kTypes)
    for (const auto& s : kMatrixSizes)
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(fmt::format("{}: {} {}, {}", name_of(type), s.rows, s.columns, plain));
        Tensors t;
        const TensorView x = t.random(type, {s.rows, s.columns}, 3, s.gap),
                         amax = t.of(DType::kF32, {1}, {1}), largest = t.empty(DType::kF32, {1});
        const auto seen_from = [&](double before) {
          Quantize op = quantize_of(t, x, amax, DType::kE4M3);
          if (plain) op.transposed = {};
          op.seen = t.of(DType::kF32, {1}, {before});
          run_on(backend(), op);
          Quantize expected = quantize_of(t, x, amax, DType::kE4M3);
          run_reference(expected);
          expect_same_bytes(op.y, expected.y, "y");
          return load(op.seen)[0];
        };
        run_reference(AbsoluteMax{x, largest});
        const double own = load(largest)[0];
        EXPECT_EQ(seen_from(0), own);
        EXPECT_EQ(seen_from(own / 2), own);
        EXPECT_EQ(seen_from(2 * own), 2 * own);
        EXPECT_TRUE(std::isnan(seen_from(kNan)));
        Values values = load(x);
        values[values.size() / 2] = -kInfinity;
        store(values, x);
        EXPECT_EQ(seen_from(own), kInfinity);
        values.back() = kNan;
        store(values, x);
        EXPECT_TRUE(std::isnan(seen_from(kInfinity)));
        t.expect_guards();
      }
}

// The scale of other steps is finite: what saturates and what must not.
TEST_P(BackendTest, InfinitiesAreNoLargeNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (DType type : kTypes)
    for (DType to : {DType::kE4M3, DType::kE5M2}) {
      Tensors t;
      const TensorView x = t.of(type, {1, 4}, {kInfinity, -kInfinity, 1e4, -1e4}),
                       amax = t.of(DType::kF32, {1}, {1});
      const Quantize op = quantize_of(t, x, amax, to);
      run_on(backend(), op);
      const Values codes = load(op.y);
      EXPECT_TRUE(std::isnan(codes[0]) && std::isnan(codes[1])) << name_of(to);
      const double largest = to == DType::kE4M3 ? 448 : 57344;
      EXPECT_EQ(codes[2], largest);
      EXPECT_EQ(codes[3], -largest);
    }
}

TEST_P(BackendTest, HistoriesOfMagnitudes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t length : {1, 2, 3, 255, 256, 257, 1000}) {
    SCOPED_TRACE(length);
    Tensors t;
    const std::int64_t count = 6;
    const TensorView seen = t.empty(DType::kF32, {count}), history = t.zeros(DType::kF32, {count, length}),
                     amax = t.empty(DType::kF32, {count}), last = t.empty(DType::kF32, {count}),
                     state = t.state();
    const Values unknown{0, kInfinity, kNan};  // do not count
    std::vector<Values> expected(count, Values(static_cast<std::size_t>(length)));
    for (int step = 0; step < 2 * std::min<std::int64_t>(length, 5) + 3; ++step) {
      const bool skipped = step == 2;
      Tensors::slot(state, StepSlot::kFoundInf) = skipped ? 1 : 0;
      Values now(count);
      for (std::int64_t n = 0; n < count; ++n) {
        now[n] = n < 3 && step % 2 == 1 ? unknown[n] : 100.0 - 7 * step + static_cast<double>(n);
        if (skipped || (n < 3 && step % 2 == 1)) continue;
        expected[n].insert(expected[n].begin(), now[n]);
        expected[n].pop_back();
      }
      store(now, seen);
      const TensorView copied = t.copy(history);
      run_on(backend(), AmaxHistoryUpdate{seen, history, amax, state});
      // The same with the other algorithm.
      store(now, seen);
      run_on(backend(), AmaxHistoryUpdate{seen, copied, last, state, true});
      expect_same_bytes(copied, history, "history");
      EXPECT_EQ(load(seen), Values(count));
      for (std::int64_t n = 0; n < count; ++n) {
        const Values all = load(history);
        EXPECT_EQ(Values(all.begin() + n * length, all.begin() + (n + 1) * length), expected[n]);
        EXPECT_EQ(load(amax)[n], *std::max_element(expected[n].begin(), expected[n].end()));
        EXPECT_EQ(load(last)[n], expected[n].front());
      }
    }
    t.expect_guards();
  }
}

TEST_P(BackendTest, AnAmaxThatIsNoNumberStaysVisible) {
  for (const double amax :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Tensors t;
    const std::int64_t n = 16;
    const TensorView x = t.random(DType::kBF16, {n, n});
    const Quantize op = quantize_of(t, x, t.of(DType::kF32, {1}, {amax}), DType::kE4M3);
    run_on(backend(), op);
    const TensorView out = t.empty(DType::kF32, {n, n});
    run_on(backend(), ScaledProduct{op.y, op.y, op.inverse_scale, op.inverse_scale, {}, out});
    for (const double y : load(out)) EXPECT_TRUE(std::isnan(y)) << y;
  }
}

TEST_P(BackendTest, ScaledProduct) {
  struct Size {
    std::int64_t m, n, k, gap;
  };
  struct Types {
    DType a, b;
  };
  for (DType out : kTypes)
    for (const Types types : {Types{DType::kE4M3, DType::kE4M3}, Types{DType::kE5M2, DType::kE4M3},
                              Types{DType::kE4M3, DType::kE5M2}})
      for (const Size& s :
           {Size{1, 16, 16, 0}, Size{7, 48, 32, 8}, Size{70, 64, 272, 0}, Size{300, 1040, 16, 0}})
        for (const int form : {0, 1, 2}) {  // plain, bias, accumulated
          SCOPED_TRACE(fmt::format("{} x {} -> {}: {} {} {}, form {}", name_of(types.a), name_of(types.b),
                                   name_of(out), s.m, s.n, s.k, form));
          Tensors t;
          ScaledProduct op{
              .a = t.random(types.a, {s.m, s.k}, 20),
              .b = t.random(types.b, {s.n, s.k}, 20),
              .inverse_a = t.of(DType::kF32, {1}, {0.0123}),
              .inverse_b = t.of(DType::kF32, {1}, {0.0317}),
              .bias = {},
              .out = form == 2 ? t.random(out, {s.m, s.n}, 1, s.gap) : t.empty(out, {s.m, s.n}, s.gap),
              .accumulate = form == 2,
              .fast = form == 1};
          if (form == 1) op.bias = t.random(DType::kF32, {s.n});
          const DType rounded = out == DType::kF32 ? DType::kBF16 : out;
          expect_like_reference(
              backend(), op,
              {64, (form == 1 && GetParam().rounds_bias) || form == 2 ? rounded : DType::kF64, 2});
          t.expect_guards();
        }
}

TEST_P(BackendTest, BiasBackward) {
  for (DType type : kTypes)
    for (const auto& s : kMatrixSizes)
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}: {} {}{}", name_of(type), s.rows, s.columns, accumulate ? " accumulate" : ""));
        Tensors t;
        const TensorView dy = t.random(type, {s.rows, s.columns}, 1, s.gap);
        const TensorView dbias =
            accumulate ? t.random(DType::kF32, {s.columns}) : t.empty(DType::kF32, {s.columns});
        const TensorView linear = t.copy(dbias);
        expect_like_reference(backend(), BiasBackward{dy, dbias, accumulate});
        // The same numbers as beside the weights' gradient.
        const TensorView x = t.random(type, {s.rows, 3}), dw = t.zeros(DType::kF32, {s.columns, 3});
        run_on(backend(), LinearBackwardWeight{x, dy, dw, linear, accumulate});
        EXPECT_EQ(load(linear), load(dbias));
        t.expect_guards();
      }
}

// A layer in 8 bits is the layer on what its operands' codes stand for.
TEST_P(BackendTest, ALinearLayerInEightBits) {
  const std::int64_t tokens = 21, inputs = 48, outputs = 32;
  Tensors t;
  const TensorView x = t.random(DType::kBF16, {tokens, inputs}),
                   w = t.random(DType::kBF16, {outputs, inputs}, 0.1),
                   dy = t.random(DType::kBF16, {tokens, outputs}, 1e-4);
  const auto quantized = [&](const TensorView& tensor, DType type) {
    const TensorView amax = t.empty(DType::kF32, {1});
    run_on(backend(), AbsoluteMax{tensor, amax});
    const Quantize op = quantize_of(t, tensor, amax, type);
    run_on(backend(), op);
    return op;
  };
  const auto meant = [&](const Quantize& q) {
    Values values = load(q.y);
    for (double& value : values) value *= load(q.inverse_scale)[0];
    return t.of(DType::kF64, q.y.shape, values);
  };
  const Quantize x8 = quantized(x, DType::kE4M3), w8 = quantized(w, DType::kE4M3),
                 dy8 = quantized(dy, DType::kE5M2);
  const TensorView xm = meant(x8), wm = meant(w8), dym = meant(dy8);
  // No code is further from its number than half a step of its mantissa, or of the subnormals.
  for (const auto& [q, step] : {std::pair(x8, 0x1p-4), std::pair(w8, 0x1p-4), std::pair(dy8, 0x1p-3)}) {
    const Values codes = load(q.y), numbers = load(q.x);
    const double inverse = load(q.inverse_scale)[0];
    for (std::size_t i = 0; i < codes.size(); ++i)
      ASSERT_LE(std::fabs(codes[i] * inverse - numbers[i]),
                1.001 * step * std::max(std::fabs(numbers[i]), 0.02 * inverse));
  }
  const auto expect = [&](const TensorView& got, const TensorView& expected) {
    const Values a = load(got), b = load(expected);
    double largest = 0;
    for (const double value : b) largest = std::max(largest, std::fabs(value));
    for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * largest);
  };
  const TensorView y = t.empty(DType::kF32, {tokens, outputs}), dx = t.empty(DType::kF32, {tokens, inputs}),
                   dw = t.empty(DType::kF32, {outputs, inputs});
  run_on(backend(), ScaledProduct{x8.y, w8.y, x8.inverse_scale, w8.inverse_scale, {}, y});
  run_on(backend(), ScaledProduct{dy8.y, w8.transposed, dy8.inverse_scale, w8.inverse_scale, {}, dx});
  run_on(backend(),
         ScaledProduct{dy8.transposed, x8.transposed, dy8.inverse_scale, x8.inverse_scale, {}, dw});
  const TensorView ym = t.empty(DType::kF64, y.shape), dxm = t.empty(DType::kF64, dx.shape),
                   dwm = t.empty(DType::kF64, dw.shape);
  run_reference(LinearForward{xm, wm, {}, ym});
  run_reference(LinearBackwardInput{dym, wm, dxm});
  run_reference(LinearBackwardWeight{xm, dym, dwm, {}, false});
  expect(y, ym);
  expect(dx, dxm);
  expect(dw, dwm);
}

TEST_P(BackendTest, EightBitShapesAreChecked) {
  Tensors t;
  const TensorView one = t.of(DType::kF32, {1}, {1});
  const auto error_of = [](const auto& op) -> std::string {
    try {
      check(op);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "(no error)";
  };
  const ScaledProduct odd{t.zeros(DType::kE4M3, {3, 24}), t.zeros(DType::kE4M3, {16, 24}), one, one, {},
                          t.zeros(DType::kBF16, {3, 16})};
  EXPECT_EQ(error_of(odd),
            "fp8 product: a is e4m3[3, 24] and b is e4m3[16, 24], expected multiples of 16 for N and K");
  const ScaledProduct wide{t.zeros(DType::kE5M2, {3, 16}), t.zeros(DType::kE5M2, {16, 16}), one, one, {},
                           t.zeros(DType::kBF16, {3, 16})};
  EXPECT_EQ(error_of(wide), "fp8 product: b is e5m2[16, 16], expected e4m3 [N, K] = [any, 16]");
  const Quantize narrow{t.zeros(DType::kBF16, {3, 16}), one, t.zeros(DType::kE4M3, {3, 16}),
                        t.zeros(DType::kE4M3, {16, 3}), one, {}};
  EXPECT_EQ(error_of(narrow), "quantize: transposed is e4m3[16, 3], expected e4m3 [C, padded R] = [16, 16]");
  EXPECT_EQ(error_of(AmaxHistoryUpdate{t.zeros(DType::kF32, {3}), t.zeros(DType::kF32, {2, 4}),
                                       t.zeros(DType::kF32, {2}), t.state()}),
            "amax history update: seen is fp32[3], expected fp32 [N] = [2]");
}

}  // namespace stoa::ops::testing
