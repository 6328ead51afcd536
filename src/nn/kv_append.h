// New keys or values of a pass on their way into the cache of generation.
#pragma once

#include "nn/pass.h"
#include "ops/cache_rows.h"
#include "ops/elementwise.h"

namespace stoa::nn {

// rows [T, heads, d] -> rows to.slots[i] of `cache` (KvLayer); without blocks, neighbours at once.
inline void append(Pass& pass, const TensorView& rows, const CacheSlots& to, TensorView cache) {
  if (cache.shape.rank() == 4)
    return ops::run(pass.ops, ops::ScatterRows{.x = rows,
                                               .index = to.rows,
                                               .y = cache.reshape({cache.shape[0] * cache.shape[1],
                                                                   cache.shape[2], cache.shape[3]})});
  const std::vector<std::int32_t>& slots = to.slots;
  const auto flat = [&](const TensorView& x, std::size_t begin, std::size_t count) {
    const auto n = static_cast<std::int64_t>(count);
    return x.slice(static_cast<std::int64_t>(begin), n).reshape({n, x.shape.inner()});
  };
  for (std::size_t i = 0, end = 0; i < slots.size(); i = end) {
    for (end = i + 1; end < slots.size() && slots[end] == slots[end - 1] + 1;) ++end;
    ops::run(pass.ops, ops::CopyRows{.x = flat(rows, i, end - i),
                                     .index = {},
                                     .y = flat(cache, static_cast<std::size_t>(slots[i]), end - i)});
  }
}

}  // namespace stoa::nn
