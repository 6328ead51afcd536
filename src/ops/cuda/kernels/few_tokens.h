// Linear layers of a few tokens in 16 bits: bound by the memory that the weights are read from.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct FewTokensArgs {
  Element type = Element::kBF16, result = Element::kBF16;  // result: the type, or fp32
  const void* x = nullptr;                                 // [tokens, columns]
  const void* w = nullptr;                                 // [rows, columns]
  const float* bias = nullptr;                             // [rows], or null
  void* y = nullptr;                                       // [tokens, rows]
  std::int64_t tokens = 0, rows = 0, columns = 0;
  std::int64_t x_stride = 0, w_stride = 0, y_stride = 0;
};

inline constexpr std::int64_t kFewTokens = 16;  // at most

// x and w are at multiples of 16 bytes, their strides and columns multiples of 8. Sums are in fp32; the shape
// of w decides their order: a token's bits do not depend on how many others there are.
void launch_few_tokens(const FewTokensArgs& args, void* stream);

}  // namespace stoa::ops::cuda
