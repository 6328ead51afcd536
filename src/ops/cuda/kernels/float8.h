// The cast to 8 bits: to nearest even, saturating (base/fp8.h).
#pragma once

#include "ops/cuda/kernels/fp8.h"
#include "ops/cuda/kernels/thread.h"

#ifdef __CUDACC__
#include <cuda_fp8.h>

namespace stoa::ops::cuda {

template <Float8 kType>
STOA_DEVICE std::uint8_t to_float8(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kType == Float8::kE4M3 ? __NV_E4M3 : __NV_E5M2);
}

}  // namespace stoa::ops::cuda

#else
#include "base/fp8.h"

namespace stoa::ops::cuda {

template <Float8 kType>
std::uint8_t to_float8(float x) {
  return kType == Float8::kE4M3 ? e4m3(x).bits : e5m2(x).bits;
}

}  // namespace stoa::ops::cuda
#endif
