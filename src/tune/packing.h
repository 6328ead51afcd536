// Which samples share a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoa::tune {

// Best fit, decreasing: the longest sample first, each into the row with the least room that is enough, or a
// new one. The samples of a row are in rising order. Each length is from 1 to `capacity`.
std::vector<std::vector<std::uint32_t>> pack(std::span<const std::int64_t> lengths, std::int64_t capacity);

}  // namespace stoa::tune
