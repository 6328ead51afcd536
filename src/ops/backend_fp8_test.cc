// FP8 GEMMs: every backend that has them against the reference. Codes and scales are equal in every bit.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

struct MatrixSize {
  std::int64_t rows, columns, gap;
};
constexpr MatrixSize kMatrixSizes[] = {{1, 1, 0},    {3, 5, 0},    {17, 33, 3},   {16, 64, 0},
                                       {130, 72, 8}, {64, 128, 0}, {257, 320, 0}, {9, 1000, 24}};

void expect_same_bytes(const TensorView& got, const TensorView& expected, const char* name) {
  EXPECT_EQ(std::memcmp(got.data, expected.data, expected.bytes()), 0) << name;
}

// What short sums of FP8 products may be off: 2^-9 of the typical result, in units of fp32.
constexpr double kShortSums = 0x1p15;

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

// Groups of rows: as if each were a tensor of its own, the one without rows too. Nobody's rows stay.
TEST_P(BackendTest, GroupsOfRowsAreQuantizedEachForItself) {
  const std::vector<std::vector<std::int32_t>> kinds{
      {0, 0, 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, {1, 1, -1, -1}, {-1, -1}, {}};
  constexpr std::int64_t kGroups = 4;
  for (const DType type : kTypes)
    for (const std::int64_t columns : {5, 16, 72, 520})
      for (const auto& ids : kinds) {
        const bool equal = ids.empty();  // without ids
        const std::int64_t rows = equal ? 3 * kGroups : static_cast<std::int64_t>(ids.size());
        SCOPED_TRACE(fmt::format("{}: {} {}, {}", name_of(type), rows, columns, fmt::join(ids, " ")));
        Tensors t;
        const TensorView x = t.random(type, {rows, columns}, 0.3),
                         groups = equal ? TensorView() : t.int32(ids).reshape({rows, 1});
        const auto bounds = [&](std::int64_t group) {
          std::int64_t begin = equal ? 3 * group : 0, count = equal ? 3 : 0;
          if (!equal) begin = std::find(ids.begin(), ids.end(), group) - ids.begin();
          if (!equal) count = std::count(ids.begin(), ids.end(), group);
          return std::pair(count > 0 ? begin : 0, count);
        };
        const TensorView amax = t.empty(DType::kF32, {kGroups});
        run_on(backend(), GroupedAbsoluteMax{x, groups, amax});
        for (std::int64_t g = 0; g < kGroups; ++g) {
          const auto [begin, count] = bounds(g);
          const TensorView one = t.empty(DType::kF32, {1});
          run_reference(AbsoluteMax{x.slice(begin, count), one});
          EXPECT_EQ(load(amax)[static_cast<std::size_t>(g)], load(one)[0]) << g;
        }
        for (const DType to : {DType::kE4M3, DType::kE5M2}) {
          // Places among those of other tensors, as histories have them.
          const auto among = [&](const Values& values) {
            Values all;
            for (const double value : values) all.insert(all.end(), {7, value, 9});
            return t.of(DType::kF32, {kGroups, 3}, all);
          };
          const TensorView scaling = among({0.7, 0, 1e-30, 0.1}), seen = among({0, 5, 0, 0.01});
          const auto second = [](const TensorView& all) { return all.columns(1, 1).reshape({kGroups}); };
          GroupedQuantize op{.x = x,
                             .groups = groups,
                             .amax = second(scaling),
                             .y = t.random(to, x.shape),
                             .inverse_scale = t.empty(DType::kF32, {kGroups}),
                             .seen = second(seen),
                             .margin = 1};
          const TensorView expected = t.copy(op.y);
          Values largest = load(op.seen), inverse;
          for (std::int64_t g = 0; g < kGroups; ++g) {
            const auto [begin, count] = bounds(g);
            const TensorView one = t.of(DType::kF32, {1}, {largest[static_cast<std::size_t>(g)]}),
                             scale = t.empty(DType::kF32, {1});
            run_reference(Quantize{
                x.slice(begin, count), op.amax.slice(g, 1), expected.slice(begin, count), {}, scale, one, 1});
            largest[static_cast<std::size_t>(g)] = load(one)[0];
            inverse.push_back(load(scale)[0]);
          }
          run_on(backend(), op);
          expect_same_bytes(op.y, expected, "y");
          EXPECT_EQ(load(op.inverse_scale), inverse);
          EXPECT_EQ(load(op.seen), largest);
          for (const std::int64_t other : {0, 2})
            for (const double value : load(seen.columns(other, 1))) EXPECT_EQ(value, other == 0 ? 7 : 9);
        }
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
          const bool through = (form == 1 && GetParam().rounds_bias) || form == 2;
          Tolerance tolerance{64, through ? rounded : DType::kF64, 2};
          if (GetParam().short_fp8_sums) tolerance.sum_ulps += kShortSums;
          expect_like_reference(backend(), op, tolerance);
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
    const double allowed = GetParam().short_fp8_sums ? 1e-3 : 1e-5;
    for (const double value : b) largest = std::max(largest, std::fabs(value));
    for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], allowed * largest);
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

// Likewise layers of experts, each with scales of its own.
TEST_P(BackendTest, LinearLayersOfExpertsInEightBits) {
  struct Size {
    std::int64_t rows, k, n;
  };
  constexpr std::int64_t kExperts = 3;
  for (const DType gradient : {DType::kE5M2, DType::kE4M3})
    for (const DType type : kTypes)
      for (const Size& s : {Size{9, 16, 32}, Size{70, 48, 144}, Size{300, 144, 16}}) {
        SCOPED_TRACE(fmt::format("{} {}: {} {} {}", name_of(gradient), name_of(type), s.rows, s.k, s.n));
        Tensors t;
        // None of the first expert's, some of nobody's.
        std::vector<std::int32_t> ids(static_cast<std::size_t>(s.rows), 1);
        for (std::size_t i = ids.size() / 2; i < ids.size(); ++i) ids[i] = i + 2 < ids.size() ? 2 : -1;
        const TensorView sorted = t.int32(ids).reshape({s.rows, 1});
        const auto scales = [&](double first) {
          return t.of(DType::kF32, {kExperts}, {first, 2.3 * first, 0.2 * first});
        };
        const TensorView x = t.random(DType::kE4M3, {s.rows, s.k}, 20),
                         w = t.random(DType::kE4M3, {kExperts * s.n, s.k}, 20),
                         dy = t.random(gradient, {s.rows, s.n}, 20), of_x = scales(0.0123),
                         of_w = scales(0.0317), of_dy = scales(0.0051);
        constexpr Tolerance kSums{64, DType::kF64, 2};
        GroupedLinearForward forward{x, w, sorted, t.empty(type, {s.rows, s.n}), of_x, of_w};
        expect_like_reference(backend(), forward, kSums);
        GroupedLinearBackwardInput input{dy, w, sorted, t.empty(type, {s.rows, s.k}), of_dy, of_w};
        expect_like_reference(backend(), input, kSums);
        for (const bool accumulate : {false, true}) {
          GroupedLinearBackwardWeight weight{
              x, dy, sorted, t.random(DType::kF32, {kExperts * s.n, s.k}), accumulate, of_x, of_dy};
          expect_like_reference(backend(), weight, kSums);
        }
        // The reference is the layer on what the codes stand for, whose gradients are those of its output.
        const auto meant = [&](const TensorView& codes, const TensorView& inverse,
                               const std::function<std::int64_t(std::int64_t)>& expert_of) {
          Values values = load(codes);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const std::int64_t e = expert_of(static_cast<std::int64_t>(i) / codes.shape[1]);
            if (e >= 0) values[i] *= load(inverse)[static_cast<std::size_t>(e)];
          }
          return t.of(DType::kF64, codes.shape, values);
        };
        const auto of_row = [&](std::int64_t r) { return std::int64_t{ids[static_cast<std::size_t>(r)]}; };
        const auto of_matrix = [&](std::int64_t r) { return r / s.n; };
        const TensorView y = t.zeros(DType::kF64, {s.rows, s.n}), exact = t.zeros(DType::kF64, y.shape);
        run_reference(GroupedLinearForward{x, w, sorted, y, t.of(DType::kF64, {kExperts}, load(of_x)),
                                           t.of(DType::kF64, {kExperts}, load(of_w))});
        run_reference(GroupedLinearForward{meant(x, of_x, of_row), meant(w, of_w, of_matrix), sorted, exact});
        EXPECT_EQ(load(y), load(exact));
        t.expect_guards();
      }
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
  const TensorView ids = t.int32({0, 0, 0}).reshape({3, 1}), two = t.of(DType::kF32, {2}, {1, 1});
  EXPECT_EQ(error_of(GroupedLinearForward{t.zeros(DType::kE4M3, {3, 16}), t.zeros(DType::kE4M3, {32, 16}),
                                          ids, t.zeros(DType::kBF16, {3, 16})}),
            "grouped linear forward: inverse_x is none, expected fp32 [E] = [2]");
  EXPECT_EQ(error_of(GroupedLinearForward{t.zeros(DType::kE4M3, {3, 24}), t.zeros(DType::kE4M3, {32, 24}),
                                          ids, t.zeros(DType::kBF16, {3, 16}), two, two}),
            "grouped linear forward: matrices of FP8 GEMMs are [16, 24], expected multiples of 16");
  EXPECT_EQ(error_of(GroupedLinearForward{t.zeros(DType::kBF16, {3, 16}),
                                          t.zeros(DType::kBF16, {32, 16}),
                                          ids,
                                          t.zeros(DType::kBF16, {3, 16}),
                                          two,
                                          {}}),
            "grouped linear forward: inverse_x is fp32[2], expected none where operands are not of 8 bits");
  EXPECT_EQ(error_of(GroupedAbsoluteMax{t.zeros(DType::kBF16, {3, 16}), {}, two}),
            "grouped absolute maximum: 3 rows in 2 equal groups");
  EXPECT_EQ(error_of(AmaxHistoryUpdate{t.zeros(DType::kF32, {3}), t.zeros(DType::kF32, {2, 4}),
                                       t.zeros(DType::kF32, {2}), t.state()}),
            "amax history update: seen is fp32[3], expected fp32 [N] = [2]");
}

}  // namespace stoa::ops::testing
