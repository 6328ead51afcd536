// Texts of a batch as the host sees them.
#pragma once

#include "base/error.h"
#include "ops/reference/values.h"
#include "ops/sequences.h"

namespace stoa::ops {

// body(text, first row, rows), in their order. DataError where they do not lie within `rows`, one after the
// other.
template <class Body>
void for_each_text(const Sequences& texts, std::int64_t rows, Body&& body) {
  const std::vector<std::int64_t> begin = load_integers(texts.begin);
  for (std::int64_t i = 0; i < texts.count; ++i) {
    const std::int64_t first = begin[i], count = begin[i + 1] - first;
    require<DataError>(first >= 0 && count >= 0 && first + count <= rows, "text {}: rows [{}, {}) of {}", i,
                       first, first + count, rows);
    require<InternalError>(count <= texts.longest, "text {} has {} tokens, more than the bound {}", i, count,
                           texts.longest);
    if (count > 0) body(i, first, count);
  }
}

}  // namespace stoa::ops
