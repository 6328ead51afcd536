// The formats of each file, for the table in packed_matrix.cc, and what they have in common. Each part of
// their memory begins on a line of the cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "quant/packed_matrix.h"
#include "quant/unpack_rows.h"

namespace stoa::quant {

extern const PackedFormat kPackedInt8;  // packed_int8.cc
extern const PackedFormat kPackedNf4;   // packed_nf4.cc

// Kernels without vectors, of float, bf16 and f16; here as everywhere, numbers are rounded once.
template <class T>
void plain_int8_row(const Int8Row& row, void* out);
template <class T>
void plain_nf4_row(const Nf4Row& row, void* out);

// Where numbers go: [i, j] of a range to element i * stride + j.
struct RowTarget {
  void* out;
  RowType type;
  std::int64_t stride;
  void* row(std::int64_t i) const {
    return static_cast<std::byte*>(out) + i * stride * (type == RowType::kF32 ? 4 : 2);
  }
};

inline float largest_magnitude(std::span<const float> numbers) {
  float out = 0;
  for (const float x : numbers) out = std::max(out, std::abs(x));
  return out;
}

}  // namespace stoa::quant
