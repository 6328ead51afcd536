#include "optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "device/host/inline_stream.h"
#include "ops/reference/reference_backend.h"

namespace stoa::optim {
namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;
  TensorView view() { return TensorView(values.data(), DType::kF64, {rows, columns}); }
  double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix test_matrix(std::int64_t rows, std::int64_t columns) {
  Matrix m{rows, columns, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    m.values.push_back(std::sin(0.7 * static_cast<double>(i * i % 101)) + 0.1 * static_cast<double>(i % 7));
  return m;
}

Matrix orthogonalized(Matrix m, MuonCoefficients kind, std::int64_t steps, double scale) {
  ops::ReferenceBackend backend;
  InlineStream stream;
  std::vector<std::byte> memory(1 << 20);
  Scratch scratch(TensorView(memory.data(), DType::kU8, {1 << 20}));
  ops::OpContext ops{backend, stream, scratch};
  orthogonalize(ops, m.view(), kind, steps, scale);
  return m;
}

// Rows (of a wide matrix) or columns become nearly orthonormal: singular values near 1 mean a Gram matrix
// near 1.
TEST(Muon, MakesMatricesNearlyOrthogonal) {
  for (const auto kind : {MuonCoefficients::kQuintic, MuonCoefficients::kSimple})
    for (const auto& [rows, columns] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{6, 17}, {17, 6}, {8, 8}}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
      const Matrix m = orthogonalized(test_matrix(rows, columns), kind, 5, 1);
      double diagonal = 0;
      const std::int64_t least = std::min(rows, columns);
      for (const double x : m.values) diagonal += x * x;
      EXPECT_NEAR(diagonal / static_cast<double>(least), 1, 0.3);
      if (rows == columns) continue;
      for (std::int64_t a = 0; a < least; ++a)
        for (std::int64_t b = 0; b < a; ++b) {
          double dot = 0;
          for (std::int64_t i = 0; i < std::max(rows, columns); ++i)
            dot += rows < columns ? m.at(a, i) * m.at(b, i) : m.at(i, a) * m.at(i, b);
          EXPECT_LT(std::abs(dot), 0.4) << a << ", " << b;
        }
    }
}

// A matrix and its transpose take different products, to the same end; the scale is that of the last step.
TEST(Muon, TransposesAgreeAndAreScaled) {
  const Matrix wide = test_matrix(5, 9);
  Matrix tall{9, 5, std::vector<double>(45)};
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 9; ++j) tall.values[static_cast<std::size_t>(j * 5 + i)] = wide.at(i, j);
  const Matrix a = orthogonalized(wide, MuonCoefficients::kQuintic, 5, 3),
               b = orthogonalized(tall, MuonCoefficients::kQuintic, 5, 1);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 9; ++j) EXPECT_NEAR(a.at(i, j), 3 * b.at(j, i), 1e-10);
}

TEST(Muon, TakesTheMatricesOfLayers) {
  OptimConfig config;
  EXPECT_FALSE(takes_muon(config, "layers.0.mlp.up.weight", {8, 4}));
  config.name = OptimizerKind::kMuon;
  EXPECT_TRUE(takes_muon(config, "layers.0.mlp.up.weight", {8, 4}));
  EXPECT_FALSE(takes_muon(config, "layers.0.norm1.weight", {8}));
  EXPECT_FALSE(takes_muon(config, "embedding.tokens.weight", {8, 4}));
}

}  // namespace
}  // namespace stoa::optim
