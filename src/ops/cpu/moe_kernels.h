// Kernels of the rows of a mixture of experts (ops/moe.h).
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct MoeArgs {
  Rows x, y;                            // backward of the scaling: x, dx
  Rows dy;                              // backward of the scaling
  const std::int32_t* index = nullptr;  // place or order
  std::int64_t k = 1;
  const float* weights = nullptr;
  float* dweights = nullptr;
};

struct MoeKernels {
  void (*sum)(const MoeArgs& args, std::int64_t begin, std::int64_t end);             // tokens
  void (*scale)(const MoeArgs& args, std::int64_t begin, std::int64_t end);           // rows
  void (*scale_backward)(const MoeArgs& args, std::int64_t begin, std::int64_t end);  // rows
};

STOA_FOR_EACH_WIDTH(const MoeKernels&, moe_kernels)

}  // namespace stoa::ops::cpu
