// Columns of a matrix that belong to heads.
#pragma once

#include "parallel/tensor_place.h"

namespace stoa::nn {

inline parallel::Part head_columns(const parallel::Part& heads, std::int64_t head_size) {
  return {heads.begin * head_size, heads.count * head_size};
}

}  // namespace stoa::nn
