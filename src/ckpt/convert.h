// Elements of one type into another. Neither side needs to be aligned: files do not promise it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace stoa::ckpt {

// Any floating-point type into any other, rounded once to nearest even (also fp64 -> bf16/fp16); other types
// only into themselves (ShapeError). `from` and `to` must not overlap.
void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type,
                      std::int64_t count);

// How many elements are infinite or not a number; 0 for integer types.
std::int64_t count_non_finite(const std::byte* data, DType type, std::int64_t count);

}  // namespace stoa::ckpt
