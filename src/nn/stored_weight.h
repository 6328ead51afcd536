// Matrices that a rank of inference holds in the numbers of their file, each as one tensor of bytes.
#pragma once

#include <functional>

#include "nn/param.h"

namespace stoa::nn {

// Fills memory of spec.stored. `row(piece, r)`: the blocks of canonical row r of a piece. `share_out(n,
// body)` calls body(0 … n - 1), on several threads. DataError: a scale is infinite or not a number.
void pack_stored(const ParamSpec& spec,
                 const std::function<const std::byte*(std::size_t piece, std::int64_t row)>& row,
                 const std::function<void(std::int64_t, const std::function<void(std::int64_t)>&)>& share_out,
                 std::byte* memory);

}  // namespace stoa::nn
