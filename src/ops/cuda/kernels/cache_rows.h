// Rows of keys and values on their way into a cache (ops::ScatterRows).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// What a cache keeps of a number: itself, or a code (ops/cache_rows.h).
enum class CacheForm : std::uint8_t { kF32, kBF16, kF16, kCodes };

// Row index[i] of y = x[i]: `heads` heads of d elements, in the cache [blocks, heads, block_rows, width].
struct ScatterRowsArgs {
  Element type = Element::kF32;
  CacheForm form = CacheForm::kF32;
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t rows = 0, x_stride = 0, heads = 0, d = 0, block_rows = 0, width = 0;
  const std::int32_t* index = nullptr;
  bool wide = false;  // d and x_stride are multiples of 8, addresses of 16; not of codes
};
void launch_scatter_rows(const ScatterRowsArgs& args, void* stream);

}  // namespace stoa::ops::cuda
