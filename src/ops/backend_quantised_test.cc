// Products with quantised matrices: every backend that has them, against the reference, and row by row.
#include <cstring>

#include "ops/backend_suite.h"
#include "ops/quantised_cases.h"

namespace stoa::ops::testing {
TEST_P(BackendTest, QuantisedLinear) {
  struct Tokens {
    std::int64_t blocks;  // of a row
    std::vector<std::int64_t> counts;
  };
  for (const BlockType type : kQuantisedTypes)
    for (const auto& [blocks, counts] :
         {Tokens{3, {1, 2, 7, 8, 9, 40, 70}}, Tokens{5, {3}}, Tokens{1, {21}}}) {
      const std::int64_t columns = blocks * quant::format_of(type).numbers;
      const quant::MatrixShape shape{columns, 3, {{{type, 37}, {BlockType::kQ8_0, 16}, {type, 5}}}};
      Tensors weights;
      const TensorView w = quantised(weights, shape);
      for (const DType x : kTypes)
        for (const std::int64_t tokens : counts)
          for (const bool bias : {false, true}) {
            if (tokens == 70 && (bias || x == DType::kF16)) continue;
            SCOPED_TRACE(fmt::format("{} {}: {} tokens, {} columns{}", quant::format_of(type).name,
                                     name_of(x), tokens, columns, bias ? ", bias" : ""));
            Tensors t;
            QuantisedLinear op{t.random(x, {tokens, columns}, 1, 5), w, shape, {}, {}};
            if (bias) op.bias = t.random(DType::kF32, {shape.rows()});
            for (const DType out : {x, DType::kF32}) {
              op.y = t.empty(out, {tokens, shape.rows()}, 3);
              expect_like_reference(backend(), op, {64, DType::kF64, 2});
              t.expect_guards();
            }
          }
      weights.expect_guards();
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

// Experts with many rows, with one and with none, and rows without an expert, which stay as they are.
TEST_P(BackendTest, GroupedQuantisedLinear) {
  if (!backend().multiplies_stored_experts()) GTEST_SKIP() << "experts are held as numbers there";
  for (const BlockType type : {BlockType::kQ8_0, BlockType::kQ4_K, BlockType::kQ6_K, BlockType::kMXFP4})
    for (const DType x : kTypes)
      for (const std::vector<std::int64_t>& rows :
           {std::vector<std::int64_t>{1, 0, 0}, {0, 30, 1}, {9, 8, 3}, {0, 0, 0}}) {
        SCOPED_TRACE(
            fmt::format("{} {}: {} rows", quant::format_of(type).name, name_of(x), fmt::join(rows, ", ")));
        Tensors t;
        const quant::MatrixShape shape{512, 2, {{{type, 37}, {BlockType::kQ8_0, 20}}}};
        std::vector<std::int32_t> experts;
        for (std::size_t e = 0; e < rows.size(); ++e)
          experts.insert(experts.end(), static_cast<std::size_t>(rows[e]), static_cast<std::int32_t>(e));
        experts.resize(experts.size() + 2, -1);
        const auto count = static_cast<std::int64_t>(experts.size());
        const TensorView w = t.empty(DType::kU8, {3 * shape.bytes()});
        for (int e = 0; e < 3; ++e)
          std::memcpy(w.slice(e * shape.bytes(), shape.bytes()).data, quantised(t, shape).data,
                      static_cast<std::size_t>(shape.bytes()));
        GroupedQuantisedLinear op{t.random(x, {count, 512}), w, shape, t.int32(experts).reshape({count, 1}),
                                  t.random(x, {count, shape.rows()})};
        expect_like_reference(backend(), op, {64, DType::kF64, 2});
        // The same bits as each expert's layer alone.
        run_on(backend(), op);
        std::int64_t begin = 0;
        for (std::size_t e = 0; e < rows.size(); begin += rows[e++]) {
          if (rows[e] == 0) continue;
          QuantisedLinear alone = op.of_expert(static_cast<std::int64_t>(e), begin, begin + rows[e]);
          alone.y = t.empty(x, {rows[e], shape.rows()});
          run_on(backend(), alone);
          EXPECT_EQ(load(alone.y), load(op.y.slice(begin, rows[e])));
        }
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
