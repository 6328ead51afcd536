// Products with quantised matrices: every backend that has them, against the reference, and row by row.
#include "ops/backend_suite.h"
#include "ops/quantised_cases.h"

namespace stoa::ops::testing {
TEST_P(BackendTest, QuantisedLinear) {
  for (const BlockType type : kQuantisedTypes)
    for (const DType x : kTypes)
      for (const std::int64_t tokens : {1, 2, 3, 7, 8, 9, 21, 40, 70})
        for (const bool bias : {false, true}) {
          if (tokens == 70 && (bias || x == DType::kF16)) continue;
          const std::int64_t numbers = quant::format_of(type).numbers, columns = tokens == 3    ? 5 * numbers
                                                                                 : tokens == 21 ? numbers
                                                                                                : 3 * numbers;
          SCOPED_TRACE(fmt::format("{} {}: {} tokens, {} columns{}", quant::format_of(type).name, name_of(x),
                                   tokens, columns, bias ? ", bias" : ""));
          Tensors t;
          const quant::MatrixShape shape{columns, 3, {{{type, 37}, {BlockType::kQ8_0, 16}, {type, 5}}}};
          QuantisedLinear op{t.random(x, {tokens, columns}, 1, 5), quantised(t, shape), shape, {}, {}};
          if (bias) op.bias = t.random(DType::kF32, {shape.rows()});
          for (const DType out : {x, DType::kF32}) {
            op.y = t.empty(out, {tokens, shape.rows()}, 3);
            expect_like_reference(backend(), op, {64, DType::kF64, 2});
            t.expect_guards();
          }
        }
}

// A token has the same bits alone and among others: whatever kernels take it.
TEST_P(BackendTest, QuantisedLinearOfATokenDoesNotDependOnOthers) {
  for (const BlockType type : kQuantisedTypes) {
    SCOPED_TRACE(quant::format_of(type).name);
    Tensors t;
    const quant::MatrixShape shape{768, 1, {{{type, 35}}}};
    const TensorView w = quantised(t, shape), x = t.random(DType::kF32, {66, 768}),
                     y = t.empty(DType::kF32, {66, 35});
    run_on(backend(), QuantisedLinear{x, w, shape, {}, y});
    const Values together = load(y);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 32, 35})
      for (std::int64_t begin = 0; begin < 33; begin += count) {
        const std::int64_t rows = std::min<std::int64_t>(count, 66 - begin);
        const TensorView alone = t.empty(DType::kF32, {rows, 35});
        run_on(backend(), QuantisedLinear{x.slice(begin, rows), w, shape, {}, alone});
        const Values found = load(alone);
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_EQ(found[i], together[static_cast<std::size_t>(begin * 35) + i]) << count << ": " << begin;
      }
  }
}

// More columns than are added up in one piece.
TEST_P(BackendTest, QuantisedLinearOfLongRows) {
  for (const BlockType type : {BlockType::kQ8_0, BlockType::kQ4_1, BlockType::kQ6_K}) {
    const std::int64_t columns = type == BlockType::kQ6_K ? 17 * 256 : 18 * 256 + 32;
    SCOPED_TRACE(quant::format_of(type).name);
    Tensors t;
    const quant::MatrixShape shape{columns, 1, {{{type, 17}}}};
    QuantisedLinear op{
        t.random(DType::kF32, {66, columns}), quantised(t, shape), shape, {}, t.empty(DType::kF32, {66, 17})};
    expect_like_reference(backend(), op, {64, DType::kF64, 2});
    const Values together = load(op.y);
    op.x = op.x.slice(65, 1), op.y = t.empty(DType::kF32, {1, 17});
    run_on(backend(), op);
    const Values alone = load(op.y);
    for (std::size_t n = 0; n < alone.size(); ++n) EXPECT_EQ(alone[n], together[65 * 17 + n]) << n;
  }
}

// One input is much larger than its neighbours; the others are too small to be scaled.
TEST_P(BackendTest, QuantisedLinearRoundsInputsToTwelveBits) {
  for (const BlockType type : {BlockType::kQ8_0, BlockType::kQ4_1, BlockType::kQ5_0}) {
    SCOPED_TRACE(quant::format_of(type).name);
    Tensors t;
    const quant::MatrixShape shape{128, 1, {{{type, 20}}}};
    const TensorView w = quantised(t, shape), x = t.random(DType::kF32, {1, 128}),
                     y = t.empty(DType::kF32, {1, 20});
    x.as<float>()[3] = 1000;
    for (int k = 64; k < 128; ++k) x.as<float>()[k] *= 1e-39F;
    run_on(backend(), QuantisedLinear{x, w, shape, {}, y});
    for (int n = 0; n < 20; ++n) {
      float row[128];
      quant::unpack_row(shape, static_cast<const std::byte*>(w.data), n, row);
      double product = 0, magnitudes = 0;
      for (int k = 0; k < 64; ++k) {
        product += static_cast<double>(x.as<float>()[k]) * static_cast<double>(row[k]);
        magnitudes += static_cast<double>(std::abs(row[k]));
      }
      // Half of a step for every weight, and what sums in fp32 lose.
      EXPECT_NEAR(static_cast<double>(y.as<float>()[n]), product, 0.52 * magnitudes * 1000 / 2032) << n;
    }
  }
}

TEST_P(BackendTest, QuantisedLinearOfWhatIsNoNumberIsNone) {
  Tensors t;
  const quant::MatrixShape shape{64, 1, {{{BlockType::kQ4_0, 3}}}};
  const TensorView w = quantised(t, shape), x = t.random(DType::kF32, {2, 64}),
                   y = t.empty(DType::kF32, {2, 3});
  x.as<float>()[70] = std::numeric_limits<float>::quiet_NaN();
  run_on(backend(), QuantisedLinear{x, w, shape, {}, y});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isfinite(y.as<float>()[i]));
    EXPECT_TRUE(std::isnan(y.as<float>()[3 + i]));
  }
}

TEST_P(BackendTest, QuantisedRows) {
  for (const BlockType type : kQuantisedTypes)
    for (const DType y : kTypes) {
      SCOPED_TRACE(fmt::format("{} {}", quant::format_of(type).name, name_of(y)));
      Tensors t;
      const quant::MatrixShape shape{512, 1, {{{type, 70}}}};
      const QuantisedRows op{t.random_int32(30, 75), quantised(t, shape), shape, t.empty(y, {30, 512}, 3)};
      expect_like_reference(backend(), op);
      t.expect_guards();
    }
}

}  // namespace stoa::ops::testing
