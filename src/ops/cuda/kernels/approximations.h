// Functions as exact as results of type T show: fp32's own, and for 16 bits those of the hardware, which are
// off by a few units of fp32.
#pragma once

#include <cmath>

#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

template <class T>
STOA_DEVICE float exp_for(float x) {
  if constexpr (sizeof(T) == 2)
    return fast_exp(x);
  else
    return expf(x);
}

template <class T>
STOA_DEVICE float sigmoid_for(float x) {
  if constexpr (sizeof(T) == 2)
    return fast_divide(1.0f, 1.0f + fast_exp(-x));
  else
    return 1.0f / (1.0f + expf(-x));
}

}  // namespace stoa::ops::cuda
