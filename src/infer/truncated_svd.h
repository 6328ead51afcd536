// The best approximation of a matrix by one of low rank.
#pragma once

#include <cstdint>
#include <vector>

#include "base/worker_pool.h"

namespace stoa::infer {

// left [rows, rank] x right [rank, columns], row-major; each has the roots of the singular values.
struct LowRankProduct {
  std::vector<float> left, right;
  double squares = 0;  // sum of squares of the product
};

// Of `matrix` [rows, columns], by subspace iteration from random vectors (Halko, Martinsson, Tropp,
// 0909.4061, algorithm 4.4), in fp64. `rank` is at most rows and columns. Does not depend on the number of
// threads.
LowRankProduct truncated_svd(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns,
                             std::int64_t rank, WorkerPool& pool);

}  // namespace stoa::infer
