// Rows that are sorted by expert: ids do not decrease, and unused rows (-1) come last.
#pragma once

#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

// How many of them are of experts below e.
STOA_DEVICE std::int64_t rows_below(const std::int32_t* sorted_experts, std::int64_t rows, std::int64_t e) {
  std::int64_t low = 0, high = rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    const std::int32_t id = sorted_experts[middle];
    if (id >= 0 && id < e)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace stoa::ops::cuda
