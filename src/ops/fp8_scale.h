// The scale of a tensor in 8 bits, for host and kernels.
#pragma once

#include "ops/schedule_formulas.h"

namespace stoa::ops {

// What brings `amax` to `largest` / 2^margin (`factor` = 2^-margin); 1 for a tensor of zeros. At most 2^126,
// so that its reciprocal is a normal number. NaN and infinity do not stay hidden: the scale is NaN or 0.
template <class F>
STOA_HOST_DEVICE F fp8_scale(F amax, F largest, F factor) {
  constexpr F kMost = static_cast<F>(0x1p126);
  if (amax == 0) return 1;
  const F scale = largest / amax * factor;
  return scale > kMost ? kMost : scale;
}

}  // namespace stoa::ops
