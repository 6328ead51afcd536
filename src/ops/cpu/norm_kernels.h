// Kernels of LayerNorm and RMSNorm (ops/norm.h) over a range of rows.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct NormArgs {
  bool centred = true;  // LayerNorm; false: RMSNorm
  double epsilon = 0;
  Rows x, branch, sum, y, dresidual, dy, dx, dbranch;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* stats = nullptr;  // [rows, 2]
  DropoutArgs dropout;
};

struct NormKernels {
  void (*forward)(const NormArgs& args, std::int64_t begin, std::int64_t end);
  // Also writes sums over these rows: dgamma [D], and dbeta [D] unless null.
  void (*backward)(const NormArgs& args, std::int64_t begin, std::int64_t end, float* dgamma, float* dbeta);
  // y[i] = (or +=) sum over p of partial[p * stride + i], i in [begin, end), added in order.
  void (*add_partials)(const float* partial, std::int64_t count, std::int64_t stride, float* y,
                       std::int64_t begin, std::int64_t end, bool accumulate);
};

STOA_FOR_EACH_WIDTH(const NormKernels&, norm_kernels)

}  // namespace stoa::ops::cpu
