// The formats of each file, for the table in packed_matrix.cc, and what they have in common. Each part of
// their memory begins on a line of the cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "quant/packed_matrix.h"

namespace stoa::quant {

extern const PackedFormat kPackedInt8;  // packed_int8.cc
extern const PackedFormat kPackedNf4;   // packed_nf4.cc

inline float largest_magnitude(std::span<const float> numbers) {
  float out = 0;
  for (const float x : numbers) out = std::max(out, std::abs(x));
  return out;
}

}  // namespace stoa::quant
