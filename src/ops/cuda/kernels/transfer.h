// Copies and sums between tensors of the ranks that share a GPU (device/device_transfer.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

void launch_copy_bytes(void* to, const void* from, std::int64_t bytes, void* stream);

enum class ReducedType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8 };

inline constexpr int kMostReduced = 64;  // inputs or outputs of one launch

// outputs[*][i] = reduction over r = 0, 1, … of inputs[r][i]; arithmetic as in comm/rank_order_reduce.h.
struct RankOrderReduceArgs {
  ReducedType type = ReducedType::kF32;
  bool maximum = false;  // or sum
  std::int64_t count = 0;
  int inputs = 0, outputs = 0;
  const void* input[kMostReduced] = {};
  void* output[kMostReduced] = {};
};
void launch_rank_order_reduce(const RankOrderReduceArgs& args, void* stream);

}  // namespace stoa::ops::cuda
