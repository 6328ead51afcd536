// Rows and columns of matrices times factors, and sums of products by row and by column (ops/scale_matrix.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// Factors that are null are 1. Strides are in elements.
struct ScaleMatrixArgs {
  Element type = Element::kF32;
  std::int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  void* y = nullptr;  // read where it is accumulated, and by sums of products
  std::int64_t x_stride = 0, y_stride = 0;
  const float* row_factors = nullptr;
  const float* column_factors = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;  // of sums of products
  bool accumulate = false;
};
void launch_scale_matrix(const ScaleMatrixArgs& args, void* stream);
// out[c] = sum over the rows of x y, out[r] = sum over the columns.
void launch_column_dots(const ScaleMatrixArgs& args, void* stream);
void launch_row_dots(const ScaleMatrixArgs& args, void* stream);

struct InverseRootArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
};
void launch_inverse_root(const InverseRootArgs& args, void* stream);

}  // namespace stoa::ops::cuda
