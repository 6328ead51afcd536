#include "infer/truncated_svd.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace stoa::infer {
namespace {

// Dense and row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double* row(std::int64_t i) { return values.data() + i * columns; }
  const double* row(std::int64_t i) const { return values.data() + i * columns; }
};

// m x [rows of m, …].
Matrix product(const Matrix& m, const Matrix& x, WorkerPool& pool) {
  Matrix out(m.rows, x.columns);
  pool.run(m.rows, [&](std::int64_t i, int) {
    for (std::int64_t k = 0; k < m.columns; ++k)
      for (std::int64_t j = 0; j < x.columns; ++j) out.row(i)[j] += m.row(i)[k] * x.row(k)[j];
  });
  return out;
}

// The transpose of m, times x: by blocks of its columns, so that each is read along its rows.
Matrix transposed_product(const Matrix& m, const Matrix& x, WorkerPool& pool) {
  Matrix out(m.columns, x.columns);
  constexpr std::int64_t kBlock = 64;
  pool.run((m.columns + kBlock - 1) / kBlock, [&](std::int64_t block, int) {
    const std::int64_t begin = block * kBlock, end = std::min(m.columns, begin + kBlock);
    for (std::int64_t k = 0; k < m.rows; ++k)
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t j = 0; j < x.columns; ++j) out.row(i)[j] += m.row(k)[i] * x.row(k)[j];
  });
  return out;
}

// Makes the columns orthonormal (Gram-Schmidt, twice); a column that depends on others becomes zero.
void orthonormalise(Matrix& m) {
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < m.rows; ++i) sum += m.row(i)[a] * m.row(i)[b];
    return sum;
  };
  for (std::int64_t j = 0; j < m.columns; ++j) {
    const double before = std::sqrt(dot(j, j));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t k = 0; k < j; ++k) {
        const double along = dot(k, j);
        for (std::int64_t i = 0; i < m.rows; ++i) m.row(i)[j] -= along * m.row(i)[k];
      }
    const double length = std::sqrt(dot(j, j));
    const double scale = length > 1e-12 * before && length > 0 ? 1 / length : 0;
    for (std::int64_t i = 0; i < m.rows; ++i) m.row(i)[j] *= scale;
  }
}

// Eigenvalues of a symmetric matrix on its diagonal, eigenvectors in the columns of what is returned
// (Jacobi).
Matrix diagonalise(Matrix& s) {
  const std::int64_t n = s.rows;
  Matrix vectors(n, n);
  for (std::int64_t i = 0; i < n; ++i) vectors.row(i)[i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) (i == j ? all : off) += s.row(i)[j] * s.row(i)[j];
    if (off <= 1e-30 * all) break;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        const double apq = s.row(p)[q];
        if (apq == 0) continue;
        const double theta = (s.row(q)[q] - s.row(p)[p]) / (2 * apq),
                     t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1)),
                     c = 1 / std::sqrt(t * t + 1), d = t * c;
        for (std::int64_t k = 0; k < n; ++k) {
          const double kp = s.row(k)[p], kq = s.row(k)[q];
          s.row(k)[p] = c * kp - d * kq, s.row(k)[q] = d * kp + c * kq;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double pk = s.row(p)[k], qk = s.row(q)[k];
          s.row(p)[k] = c * pk - d * qk, s.row(q)[k] = d * pk + c * qk;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double kp = vectors.row(k)[p], kq = vectors.row(k)[q];
          vectors.row(k)[p] = c * kp - d * kq, vectors.row(k)[q] = d * kp + c * kq;
        }
      }
  }
  return vectors;
}

}  // namespace

LowRankProduct truncated_svd(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns,
                             std::int64_t rank, WorkerPool& pool) {
  require<InternalError>(rank >= 1 && rank <= std::min(rows, columns), "rank {} of a [{}, {}] matrix", rank,
                         rows, columns);
  constexpr std::int64_t kMore = 8;  // vectors beyond the rank, for accuracy
  constexpr int kIterations = 8;
  const std::int64_t width = std::min(rank + kMore, std::min(rows, columns));
  Matrix m(rows, columns), x(columns, width);
  std::copy(matrix.begin(), matrix.end(), m.values.begin());
  philox_normals(philox_key(1, RandomPurpose::kInit, "truncated svd"), 0,
                 static_cast<std::int64_t>(x.values.size()), x.values.data());
  Matrix q = product(m, x, pool);
  orthonormalise(q);
  for (int i = 0; i < kIterations; ++i) {
    x = transposed_product(m, q, pool);
    orthonormalise(x);
    q = product(m, x, pool);
    orthonormalise(q);
  }
  const Matrix b = transposed_product(m, q, pool);  // [columns, width]: the transpose of q' m
  Matrix gram = transposed_product(b, b, pool);
  const Matrix vectors = diagonalise(gram);
  std::vector<std::int64_t> order(static_cast<std::size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return gram.row(i)[i] > gram.row(j)[j]; });
  LowRankProduct out;
  out.left.resize(static_cast<std::size_t>(rows * rank));
  out.right.resize(static_cast<std::size_t>(rank * columns));
  for (std::int64_t k = 0; k < rank; ++k) {
    const std::int64_t of = order[static_cast<std::size_t>(k)];
    const double square = std::max(0.0, gram.row(of)[of]), root = std::sqrt(std::sqrt(square));
    out.squares += square;
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) sum += q.row(i)[j] * vectors.row(j)[of];
      out.left[static_cast<std::size_t>(i * rank + k)] = static_cast<float>(sum * root);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) sum += b.row(i)[j] * vectors.row(j)[of];
      out.right[static_cast<std::size_t>(k * columns + i)] = root > 0 ? static_cast<float>(sum / root) : 0.0f;
    }
  }
  return out;
}

}  // namespace stoa::infer
