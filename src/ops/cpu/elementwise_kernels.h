// Kernels of the element-by-element operations (ops/elementwise.h), of rotary embeddings and of sums of
// squares.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct RotaryArgs {
  Rows x;  // one row per token and head
  std::int64_t heads = 0, half = 0;
  const std::int32_t* positions = nullptr;
  const float* table = nullptr;
  bool inverse = false;
};

struct ElementwiseKernels {
  void (*cast)(const Rows& x, const Rows& y, std::int64_t begin, std::int64_t end);  // flat elements of row 0
  void (*add_to)(const Rows& x, const Rows& y, std::int64_t begin,
                 std::int64_t end);  // flat elements of row 0
  // y = a x + b y on flat elements of row 0; y is not read where b is 0.
  void (*combine)(float a, const Rows& x, float b, const Rows& y, std::int64_t begin, std::int64_t end);
  // y = x + dropout(branch) on rows; without x: y = dropout(branch).
  void (*add_dropped)(const Rows& x, const Rows& branch, const DropoutArgs& dropout, const Rows& y,
                      std::int64_t begin, std::int64_t end);
  double (*sum_squares)(const float* x, std::int64_t n);
  void (*rotary)(const RotaryArgs& args, std::int64_t begin, std::int64_t end);  // tokens
};

STOA_FOR_EACH_WIDTH(const ElementwiseKernels&, elementwise_kernels)

}  // namespace stoa::ops::cpu
