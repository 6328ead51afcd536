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

// The scale of part j of a block of IQ4_XS, from its four bytes of low bits and two of high ones.
inline int uneven_part_scale(std::uint32_t low, int high, int j) {
  return static_cast<int>((low >> (4 * j)) & 15) + (((high >> (2 * j)) & 3) << 4) - 32;
}

// 2^(e - 128): the scale of a block of MXFP4 with exponent e, for twice the values of E2M1.
inline float half_power(int e) {
  return e < 2 ? std::bit_cast<float>(0x00200000u << e)
               : std::bit_cast<float>(static_cast<unsigned>(e - 1) << 23);
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
