// 8-bit floating-point storage types (Micikevicius et al. 2022, "FP8 formats for deep learning"). Conversion
// rounds to nearest even and saturates: what is beyond the largest number, infinity too, becomes that number.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/half.h"

namespace stoa {

// A float as sign, exponent of the given bias and kMantissa bits; `largest`: the bits of the largest number.
template <int kMantissa, int kBias>
std::uint8_t fp8_bits(float x, std::uint32_t largest) {
  constexpr std::uint32_t kNan = 0x7f, kSmallestNormal = (128u - kBias) << 23, kShift = 23 - kMantissa;
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 24) & 0x80u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return kNan;
  if (magnitude < kSmallestNormal) {
    // Let the float adder round: the last place of `place` is that of the subnormals.
    constexpr std::uint32_t kPlace = (128u - kBias - kMantissa + 23u) << 23;
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kPlace);
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - kPlace));
  }
  const std::uint32_t odd = (magnitude >> kShift) & 1u;
  const std::uint32_t rounded =
      (magnitude - ((127u - kBias) << 23) + (1u << (kShift - 1)) - 1u + odd) >> kShift;
  return static_cast<std::uint8_t>(sign | std::min(rounded, largest));
}

// 4 exponent bits, 3 mantissa bits, no infinities ("E4M3FN"): up to 448.
struct e4m3 {
  static constexpr float kLargest = 448;
  std::uint8_t bits = 0;
  e4m3() = default;
  explicit e4m3(float x) : bits(fp8_bits<3, 7>(x, 0x7e)) {}
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24, magnitude = bits & 0x7fu;
    if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (magnitude < 8)
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f) |
                                  sign);
    return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  }
};

// 5 exponent bits, 2 mantissa bits: the upper half of an f16. Up to 57344.
struct e5m2 {
  static constexpr float kLargest = 57344;
  std::uint8_t bits = 0;
  e5m2() = default;
  explicit e5m2(float x) : bits(fp8_bits<2, 15>(x, 0x7b)) {}
  explicit operator float() const {
    f16 wide;
    wide.bits = static_cast<std::uint16_t>(bits << 8);
    return static_cast<float>(wide);
  }
};

}  // namespace stoa
