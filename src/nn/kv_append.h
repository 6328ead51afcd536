// New keys or values of a pass on their way into the cache of generation.
#pragma once

#include "nn/pass.h"
#include "ops/cache_rows.h"

namespace stoa::nn {

// rows [T, heads, d] -> rows `to` of the blocks of `cache` (KvLayer).
inline void append(Pass& pass, const TensorView& rows, const TensorView& to, TensorView cache) {
  ops::run(pass.ops, ops::ScatterRows{.x = rows, .index = to, .y = cache});
}

}  // namespace stoa::nn
