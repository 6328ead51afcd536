// Rounding up. Arguments: a >= 0, b > 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoa {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
// Bytes of the lines of the cache that a number of bytes needs.
constexpr std::size_t whole_lines(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, 64));
}

}  // namespace stoa
