// Rows of a cache (ops/cache_rows.h) as numbers.
#pragma once

#include "ops/reference/values.h"

namespace stoa::ops {

// A cache [..., cached_width(d)] as [..., d].
Values load_cached(const TensorView& cache, std::int64_t d);

}  // namespace stoa::ops
