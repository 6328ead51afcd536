#include "infer/truncated_svd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace stoa::infer {
namespace {

std::vector<float> random_matrix(std::int64_t elements, const char* name) {
  std::vector<double> normals(static_cast<std::size_t>(elements));
  philox_normals(philox_key(3, RandomPurpose::kTest, name), 0, elements, normals.data());
  return {normals.begin(), normals.end()};
}

std::vector<float> multiplied(const std::vector<float>& a, const std::vector<float>& b, std::int64_t rows,
                              std::int64_t rank, std::int64_t columns) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < rank; ++k)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * rank + k)]) *
               b[static_cast<std::size_t>(k * columns + j)];
      out[static_cast<std::size_t>(i * columns + j)] = static_cast<float>(sum);
    }
  return out;
}

double squares(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (a[i] - b[i]);
  return sum;
}

TEST(TruncatedSvd, FindsAMatrixOfLowRank) {
  WorkerPool pool(2);
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{20, 33}, {33, 20}, {5, 40}}) {
    const auto matrix =
        multiplied(random_matrix(rows * 3, "left"), random_matrix(3 * columns, "right"), rows, 3, columns);
    const LowRankProduct found = truncated_svd(matrix, rows, columns, 3, pool);
    const std::vector<float> zero(matrix.size());
    EXPECT_LT(squares(matrix, multiplied(found.left, found.right, rows, 3, columns)),
              1e-10 * squares(matrix, zero));
    EXPECT_NEAR(found.squares, squares(matrix, zero), 1e-5 * found.squares);
  }
}

// What it leaves out is what it says, and no product of that rank leaves less: the singular values of a
// diagonal matrix are known.
TEST(TruncatedSvd, KeepsTheLargestSingularValues) {
  WorkerPool pool(1);
  constexpr std::int64_t kSize = 30;
  std::vector<float> matrix(kSize * kSize);
  double kept = 0, all = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const double value = 10 * std::pow(0.8, static_cast<double>(i));
    matrix[static_cast<std::size_t>(i * kSize + (i * 7) % kSize)] = static_cast<float>(value);
    all += value * value;
    if (i < 5) kept += value * value;
  }
  const LowRankProduct found = truncated_svd(matrix, kSize, kSize, 5, pool);
  EXPECT_NEAR(found.squares, kept, 1e-4 * kept);
  EXPECT_NEAR(squares(matrix, multiplied(found.left, found.right, kSize, 5, kSize)), all - kept, 1e-3 * kept);
}

TEST(TruncatedSvd, OfNothingIsNothing) {
  WorkerPool pool(1);
  const LowRankProduct found = truncated_svd(std::vector<float>(12), 3, 4, 2, pool);
  EXPECT_EQ(found.squares, 0);
  for (const float x : found.left) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace stoa::infer
