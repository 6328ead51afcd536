// ops::AttentionMerge: fields as there, rows of heads.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct AttentionMergeArgs {
  Element type = Element::kF32;  // of part
  const void* part = nullptr;
  const float* part_lse = nullptr;
  float* o = nullptr;
  float* lse = nullptr;
  std::int64_t rows = 0, d = 0;  // tokens x heads; elements of a head
  bool wide = false;             // d is a multiple of 8, addresses of 16
};
void launch_attention_merge(const AttentionMergeArgs& args, void* stream);

}  // namespace stoa::ops::cuda
