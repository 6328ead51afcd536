// Numbers that the codes of inputs are made with (ops/quantised_linear.h). Kernel files include this: no
// functions.
#pragma once

namespace stoa::ops {

inline constexpr int kCoarseCode = 127,
                     kFineCodes = 128;  // the largest coarse code; fine codes that equal one
// Neighbours of no larger magnitude are rounded to 0: the inverse of their scale may be infinite.
inline constexpr float kLeastRounded = 1e-30F;

}  // namespace stoa::ops
