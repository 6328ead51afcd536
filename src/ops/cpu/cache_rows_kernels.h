// Rows of keys and values written to a cache, one table per width of vectors. cache_rows.cc drives them.
#pragma once

#include "ops/cpu/cache_form.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct ScatterJob {
  const void* x = nullptr;  // rows of heads * d elements, `stride` apart
  Element type = Element::kF32;
  std::int64_t stride = 0, heads = 0, d = 0;
  const std::int32_t* index = nullptr;
  void* y = nullptr;  // [blocks, heads, block_rows, width] elements of the form (bytes of codes)
  CacheForm form = CacheForm::kF32;
  std::int64_t block_rows = 0, width = 0;
};

struct CacheRowsKernels {
  // Rows [begin, end) of x.
  void (*scatter)(const ScatterJob& job, std::int64_t begin, std::int64_t end);
};

STOA_FOR_EACH_WIDTH(const CacheRowsKernels&, cache_rows_kernels)

}  // namespace stoa::ops::cpu
