// The formats of each file, for the table in packed_matrix.cc, and what their memory has in common.
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/packed_matrix.h"

namespace stoa::quant {

extern const PackedFormat kPackedInt8;  // packed_int8.cc
extern const PackedFormat kPackedNf4;   // packed_nf4.cc

// Each part of the memory of a format begins on a line of the cache.
inline std::size_t whole_lines(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 63) / 64 * 64);
}

inline float largest_magnitude(std::span<const float> numbers) {
  float out = 0;
  for (const float x : numbers) out = std::max(out, std::abs(x));
  return out;
}

}  // namespace stoa::quant
