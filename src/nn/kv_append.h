// New keys or values of a pass on their way into the cache of generation.
#pragma once

#include "nn/pass.h"
#include "ops/elementwise.h"

namespace stoa::nn {

// rows [T, heads, d] -> rows pass.cache->slots[i] of `cache` [capacity, heads, d]. One by one: slots of
// several sequences need not be consecutive.
inline void append(Pass& pass, const TensorView& rows, const TensorView& cache) {
  const Shape row{rows.shape.inner()};
  for (std::size_t i = 0; i < pass.cache->slots.size(); ++i)
    ops::run(pass.ops,
             ops::Cast{.x = rows.slice(static_cast<std::int64_t>(i), 1).reshape({1, row[0]}).reshape(row),
                       .y = cache.slice(pass.cache->slots[i], 1).reshape(row)});
}

}  // namespace stoa::nn
