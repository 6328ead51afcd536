// Rows copied, gathered, added and scaled (CopyRows of ops/elementwise.h; ops/moe.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// y[i] = x[index[i] / share], or x[i] without index. Columns and strides are in units of `unit` bytes: 2, 4,
// 8, or 16 where all addresses are multiples of that.
struct CopyRowsArgs {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t unit = 0;
  std::int64_t rows = 0, columns = 0, x_stride = 0, y_stride = 0;
  const std::int32_t* index = nullptr;
  std::int64_t share = 1;
};
void launch_copy_rows(const CopyRowsArgs& args, void* stream);

// Contiguous rows. Fields as in ops::SumRows, ops::ScaleRows and ops::ScaleRowsBackward.
struct ExpertRowsArgs {
  Element type = Element::kF32;
  std::int64_t rows = 0, columns = 0;  // of y
  const void* x = nullptr;
  const void* dy = nullptr;
  void* y = nullptr;  // dx in the backward pass
  const std::int32_t* index = nullptr;
  std::int64_t k = 1;  // SumRows: rows in a sum
  const float* weights = nullptr;
  float* dweights = nullptr;
  bool wide = false;  // columns are a multiple of 8, addresses of 16
};
void launch_sum_rows(const ExpertRowsArgs& args, void* stream);
void launch_scale_rows(const ExpertRowsArgs& args, void* stream);
void launch_scale_rows_backward(const ExpertRowsArgs& args, void* stream);

}  // namespace stoa::ops::cuda
