// Numbers of 8 bits: the cast to them, to nearest even, saturating (base/fp8.h), and back. And a maximum that
// many blocks raise.
#pragma once

#include <type_traits>

#include "ops/cuda/kernels/fp8.h"
#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

template <Float8 kType>
struct Code {
  std::uint8_t bits;
};

}  // namespace stoa::ops::cuda

#ifdef __CUDACC__
#include <cuda_fp8.h>

namespace stoa::ops::cuda {

template <Float8 kType>
STOA_DEVICE std::uint8_t to_float8(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kType == Float8::kE4M3 ? __NV_E4M3 : __NV_E5M2);
}

template <Float8 kType>
STOA_DEVICE float widen(Code<kType> x) {
  return __half2float(
      __half(__nv_cvt_fp8_to_halfraw(x.bits, kType == Float8::kE4M3 ? __NV_E4M3 : __NV_E5M2)));
}

// Bits of numbers of one sign are ordered as integers, NaN above all. In any order the same. What was read is
// too small at worst: most blocks need not wait for each other.
STOA_DEVICE void raise(float* largest, float magnitude) {
  auto* bits = reinterpret_cast<unsigned*>(largest);
  const unsigned to = __float_as_uint(magnitude);
  if (to > *static_cast<volatile unsigned*>(bits)) atomicMax(bits, to);
}

}  // namespace stoa::ops::cuda

#else
#include "base/fp8.h"

namespace stoa::ops::cuda {

template <Float8 kType>
std::uint8_t to_float8(float x) {
  return kType == Float8::kE4M3 ? e4m3(x).bits : e5m2(x).bits;
}

template <Float8 kType>
float widen(Code<kType> x) {
  std::conditional_t<kType == Float8::kE4M3, e4m3, e5m2> code;
  code.bits = x.bits;
  return static_cast<float>(code);
}

inline void raise(float* largest, float magnitude) {
  if (bits_of(magnitude) > bits_of(*largest)) *largest = magnitude;
}

}  // namespace stoa::ops::cuda
#endif
