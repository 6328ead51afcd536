// LayerNorm and RMSNorm, with the residual addition before them (ops/norm.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct NormArgs {
  bool centred = true;  // LayerNorm
  float epsilon = 1e-5f;
  std::int64_t rows = 0, columns = 0;
  Rows x, branch, sum, y;  // forward; types: x and sum; branch, of 16 bits or as x; y, as branch or as x
  Rows dy, dresidual, dx, dbranch;  // backward; types: x, dresidual and dx; dy and dbranch
  const float* gamma = nullptr;     // none: ones
  const float* beta = nullptr;
  float* stats = nullptr;
  DropoutArgs dropout;
  // Backward: sums of blocks of rows, [norm_blocks(rows, columns), 2 * columns].
  float* partial = nullptr;
  bool wide = false;  // columns, strides and dropout.first are multiples of 8, addresses of 16
};

// A function of the shape alone, so that sums have one order.
std::int64_t norm_blocks(std::int64_t rows, std::int64_t columns);

void launch_norm_forward(const NormArgs& args, void* stream);
void launch_norm_backward(const NormArgs& args, void* stream);

// out[c] (+)= sum over blocks, in order, of partial[b * stride + c].
struct PartialSums {
  const float* partial = nullptr;
  std::int64_t blocks = 0, stride = 0, columns = 0;
  float* out = nullptr;
  bool accumulate = true;
};
void launch_add_partials(const PartialSums& args, void* stream);

// Sums over the rows of x: partial[block][column], then launch_add_partials.
struct ColumnSums {
  Rows x;
  std::int64_t rows = 0;
  float* partial = nullptr;  // [column_sum_blocks(rows), columns]
  bool wide = false;
};
std::int64_t column_sum_blocks(std::int64_t rows);
void launch_column_sums(const ColumnSums& args, void* stream);

}  // namespace stoa::ops::cuda
