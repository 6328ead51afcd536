// Numbers that 8-bit rows of a cache are made with (ops/cache_rows.h). Kernel files include this: no
// functions.
#pragma once

namespace stoa::ops {

inline constexpr int kCacheColumns = 32;  // neighbours that have one scale; at the end of a head maybe fewer
inline constexpr float kLargestCacheCode = 127.0F;
// Scales below it count as 0: their inverse may be infinite.
inline constexpr float kLeastCacheScale = 1e-30F;
inline constexpr float kBeyondF16 = 65520.0F;  // magnitudes from here on would round to infinity

}  // namespace stoa::ops
