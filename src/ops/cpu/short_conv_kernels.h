// Kernels of the short causal convolution (ops/short_conv.h): a text and some columns at a time.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct ConvArgs {
  static constexpr std::int64_t kMostTaps = 8;
  static constexpr std::int64_t kColumns = 64;  // of a call, at most

  Rows x, y, dy, dx;
  const float* weight = nullptr;  // [C, taps]
  float* dweight = nullptr;       // [C, taps], added to
  std::int64_t taps = 0, columns = 0;
};

struct ConvTask {
  std::int64_t first = 0, tokens = 0;  // rows of the text
  std::int64_t begin = 0, count = 0;   // columns
  float* state = nullptr;              // [taps - 1, C] of the text, read and replaced; null: zeros
};

struct ConvKernels {
  void (*forward)(const ConvArgs& args, const ConvTask& task);
  void (*backward)(const ConvArgs& args, const ConvTask& task);
};
STOA_FOR_EACH_WIDTH(const ConvKernels&, short_conv_kernels)

}  // namespace stoa::ops::cpu
