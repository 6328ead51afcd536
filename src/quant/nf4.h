// NF4 (2305.14314): 4-bit codes of numbers in [-1, 1], at quantiles of a normal distribution; a block of 64
// numbers is divided by its largest magnitude. Doubly quantised, these magnitudes, less their mean, are 8-bit
// codes in blocks of 256. Values and codes are those of bitsandbytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace stoa::quant {

inline constexpr std::int64_t kNf4Block = 64, kNf4Group = 256;

// Values of the codes, ascending.
const std::array<float, 16>& nf4_values();
std::uint8_t nearest_nf4(float x);

// Values of the 8-bit codes of magnitudes, ascending: seven decades, each with twice the values of the one
// below (1511.04561, section 2.3).
const std::array<float, 256>& dynamic_values();
std::uint8_t nearest_dynamic(float x);

}  // namespace stoa::quant
