// The whole numbers for which codes of 4 bits stand in formats whose values do not lie evenly.
#pragma once

#include <array>
#include <cstdint>

namespace stoa::quant {

using CodeValues = std::array<std::int8_t, 16>;

// IQ4_NL, IQ4_XS: closer together near zero.
inline constexpr CodeValues kUnevenValues{-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 (MXFP4, NVFP4): sign, two bits of exponent, one of mantissa; twice the values, so that they are whole.
// The scales are halved in return, as GGML does.
inline constexpr CodeValues kTwiceE2M1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace stoa::quant
