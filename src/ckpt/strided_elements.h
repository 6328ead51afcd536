// Views of memory with a stride per dimension, read in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stoa::ckpt {

// Elements [begin, end) of the view at the start of `memory`: a part of `memory` where they lie together in
// it, otherwise copied to `scratch`, which grows as needed. Shape and stride are checked by the caller: every
// element lies inside.
std::span<const std::byte> strided_elements(std::span<const std::byte> memory, std::size_t element_bytes,
                                            const std::vector<std::int64_t>& shape,
                                            const std::vector<std::int64_t>& stride, std::int64_t begin,
                                            std::int64_t end, std::vector<std::byte>& scratch);

}  // namespace stoa::ckpt
