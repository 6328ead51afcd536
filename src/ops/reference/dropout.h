// The mask of Dropout (norm.h), element by element.
#pragma once

#include "ops/norm.h"

namespace stoa::ops {

// Factor of element (row, column) of a tensor with `columns` columns: 0 or 1/(1-p).
inline double dropout_factor(const Dropout& dropout, std::int64_t row, std::int64_t column,
                             std::int64_t columns) {
  if (dropout.p == 0) return 1;
  const auto index = static_cast<std::uint64_t>((dropout.first_token + row) * columns + column);
  if (uniform_from_word(philox_word(dropout.key, index)) < dropout.p) return 0;
  return 1 / (1 - static_cast<double>(dropout.p));
}

}  // namespace stoa::ops
