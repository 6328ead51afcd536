// Log-sums between the layout of operations [batch * length, heads] and of the attention library [batch,
// heads, length].
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct LseArgs {
  std::int64_t batch = 0, heads = 0, length = 0;
  float* by_head = nullptr;
  float* by_row = nullptr;
};
void launch_lse_to_rows(const LseArgs& args, void* stream);
void launch_lse_from_rows(const LseArgs& args, void* stream);

}  // namespace stoa::ops::cuda
