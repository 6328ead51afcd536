// Numbers that the codes of inputs are made with (ops/quantised_linear.h). Kernel files include this: no
// functions.
#pragma once

namespace stoa::ops {

inline constexpr int kCoarseCode = 127,    // the largest
    kFineCodes = 16;                       // fine codes that equal a coarse one
inline constexpr int kScaledColumns = 64;  // neighbours that have one scale; at the end of a row maybe fewer
// Neighbours of no larger magnitude are rounded to 0: the inverse of their scale may be infinite.
inline constexpr float kLeastRounded = 1e-30F;

}  // namespace stoa::ops
