// Rotary position embedding in place (ops/attention.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct RotaryArgs {
  Rows x;  // [tokens * heads] rows of d
  std::int64_t tokens = 0, heads = 0, half = 0;
  const std::int32_t* positions = nullptr;
  const float* table = nullptr;  // [positions, 2, half]
  std::int64_t table_rows = 0;
  bool inverse = false;
  bool wide = false;  // half, d and the stride are multiples of 8, addresses of 16
};
void launch_rotary(const RotaryArgs& args, void* stream);

}  // namespace stoa::ops::cuda
