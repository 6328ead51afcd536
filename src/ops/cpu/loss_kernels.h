// Kernel of the cross entropy (ops/loss.h).
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct LossKernels {
  // log of the sum of exponentials of the first n elements of a row, times `scale`: `top` + log(`sum`).
  void (*exponentials)(Element type, const void* row, std::int64_t n, float scale, float* top, float* sum);
  // row[i] = weight * exp(row[i] - lse) - shift for i < n, 0 for n <= i < width.
  void (*softmax)(Element type, void* row, std::int64_t n, std::int64_t width, float lse, float weight,
                  float shift);
  float (*total)(Element type, const void* row, std::int64_t n);  // sum of the first n elements
};

STOA_FOR_EACH_WIDTH(const LossKernels&, loss_kernels)

}  // namespace stoa::ops::cpu
