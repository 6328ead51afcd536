// Numbers inside of blocks, which are little endian and not aligned.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace stoa::quant {

static_assert(std::endian::native == std::endian::little);

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline float load_half(const std::byte* from) { return static_cast<float>(load<f16>(from)); }
// Returns what was kept.
inline float store_half(std::byte* to, float value) {
  const f16 half(value);
  store(to, half);
  return static_cast<float>(half);
}

inline int byte_at(const std::byte* from, int index) { return std::to_integer<int>(from[index]); }

// Scale and minimum, of 6 bits each, of part j of a block of Q4_K or Q5_K, from its 12 bytes of scales.
struct PartScale {
  int scale, minimum;
};
inline PartScale part_scale(const std::byte* s, int j) {
  if (j < 4) return {byte_at(s, j) & 63, byte_at(s, j + 4) & 63};
  return {(byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6) << 4,
          byte_at(s, j + 4) >> 4 | (byte_at(s, j) >> 6) << 4};
}

// The value with the largest magnitude, its sign kept; 0 of zeros.
inline float extreme(const float* x, int count) {
  float found = 0;
  for (int i = 0; i < count; ++i)
    if (std::abs(x[i]) > std::abs(found)) found = x[i];
  return found;
}

inline float inverse(float x) { return x == 0 ? 0 : 1 / x; }

}  // namespace stoa::quant
