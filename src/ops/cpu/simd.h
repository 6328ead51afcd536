// Vectors of floats for kernel files (cmake/StoaKernels.cmake): one source, compiled for every instruction
// set. Arithmetic operators come from the compiler's vector extensions; what they lack is wrapped here.
#pragma once

#ifndef STOA_ISA
#error "simd.h is for *_kernels.cc files only"
#endif

#include <cstdint>
#include <cstring>
#if STOA_ISA_LEVEL >= 1
#include <immintrin.h>
#endif

#define STOA_INLINE [[gnu::always_inline]] static inline

namespace stoa::ops::cpu::STOA_ISA {

#if STOA_ISA_LEVEL >= 2
constexpr int kLanes = 16;
constexpr int kRegisters = 32;
#elif STOA_ISA_LEVEL == 1
constexpr int kLanes = 8;
constexpr int kRegisters = 16;
#else
constexpr int kLanes = 4;
constexpr int kRegisters = 16;
#endif

typedef float F __attribute__((vector_size(kLanes * 4)));  // floats
typedef float FU __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef std::int32_t I __attribute__((vector_size(kLanes * 4)));  // comparisons yield these
typedef std::uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef std::uint16_t H __attribute__((vector_size(kLanes * 2)));  // 16-bit storage
typedef std::uint16_t HU __attribute__((vector_size(kLanes * 2), aligned(1), may_alias));

// The compiler drops the subtraction, since x - 0 is x for every x. It would compute F{} + x, which is 0 for
// -0.
STOA_INLINE F splat(float x) { return x - F{}; }
STOA_INLINE F load(const float* p) { return *reinterpret_cast<const FU*>(p); }
STOA_INLINE void store(float* p, F x) { *reinterpret_cast<FU*>(p) = x; }
STOA_INLINE H load_half(const void* p) { return *reinterpret_cast<const HU*>(p); }
STOA_INLINE void store_half(void* p, H x) { *reinterpret_cast<HU*>(p) = x; }

// The first n lanes (0 <= n <= kLanes); the others are 0 and their memory is not touched.
STOA_INLINE F load_first(const float* p, int n) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p));
#else
  F x{};
  std::memcpy(&x, p, static_cast<std::size_t>(n) * 4);
  return x;
#endif
}
STOA_INLINE void store_first(float* p, F x, int n) {
#if STOA_ISA_LEVEL >= 2
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), reinterpret_cast<__m512>(x));
#else
  std::memcpy(p, &x, static_cast<std::size_t>(n) * 4);
#endif
}
STOA_INLINE H load_half_first(const void* p, int n) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<H>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1u), p));
#else
  H x{};
  std::memcpy(&x, p, static_cast<std::size_t>(n) * 2);
  return x;
#endif
}
STOA_INLINE void store_half_first(void* p, H x, int n) {
#if STOA_ISA_LEVEL >= 2
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1u), reinterpret_cast<__m256i>(x));
#else
  std::memcpy(p, &x, static_cast<std::size_t>(n) * 2);
#endif
}

// a * b + c, rounded once where the instruction set has it.
STOA_INLINE F fma(F a, F b, F c) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<F>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}
STOA_INLINE F select(I mask, F yes, F no) { return mask ? yes : no; }
STOA_INLINE F max(F a, F b) { return a > b ? a : b; }  // b where a is NaN
STOA_INLINE F min(F a, F b) { return a < b ? a : b; }
STOA_INLINE F abs(F a) { return reinterpret_cast<F>(reinterpret_cast<U>(a) & 0x7fffffffu); }
STOA_INLINE F sqrt(F a) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(_mm512_sqrt_ps(reinterpret_cast<__m512>(a)));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<F>(_mm256_sqrt_ps(reinterpret_cast<__m256>(a)));
#else
  F r;
  for (int i = 0; i < kLanes; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
#endif
}

// Sum and maximum of the lanes, halves folded onto each other: the order depends on kLanes alone.
STOA_INLINE float reduce_add(F x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int n = kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] += lanes[i + n];
  return lanes[0];
}
STOA_INLINE float reduce_max(F x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int n = kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
  return lanes[0];
}

STOA_INLINE F from_bf16(H x) { return reinterpret_cast<F>(__builtin_convertvector(x, U) << 16); }
// Nearest even; NaN stays NaN.
STOA_INLINE H to_bf16(F x) {
#if STOA_ISA_LEVEL >= 3
  // vcvtneps2bf16 flushes subnormals; they are rare and below 1.2e-38, where half.h keeps them.
  return reinterpret_cast<H>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
#else
  const U u = reinterpret_cast<U>(x);
  const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U quiet = (u >> 16) | 0x40u;
  const U r = (u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  return __builtin_convertvector(r, H);
#endif
}

STOA_INLINE F from_f16(H x) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(x)));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<F>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(x)));
#else
  const U h = __builtin_convertvector(x, U);
  const U sign = (h & 0x8000u) << 16;
  const U magnitude = h & 0x7fffu;
  const F normal = reinterpret_cast<F>((magnitude << 13) + (112u << 23));
  const F subnormal = __builtin_convertvector(reinterpret_cast<I>(magnitude), F) * 0x1p-24f;
  const U special = (magnitude << 13) | 0x7f800000u;
  U r = magnitude < 0x400u ? reinterpret_cast<U>(subnormal) : reinterpret_cast<U>(normal);
  r = magnitude >= 0x7c00u ? special : r;
  return reinterpret_cast<F>(r | sign);
#endif
}
STOA_INLINE H to_f16(F x) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<H>(
      _mm512_cvtps_ph(reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<H>(
      _mm256_cvtps_ph(reinterpret_cast<__m256>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else  // as base/half.h
  const U u = reinterpret_cast<U>(x);
  const U sign = (u >> 16) & 0x8000u;
  const U magnitude = u & 0x7fffffffu;
  const U tiny = reinterpret_cast<U>(reinterpret_cast<F>(magnitude) + 0.5f) - 0x3f000000u;
  U r = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  r = magnitude < 0x38800000u ? tiny : r;
  r = magnitude >= 0x477ff000u ? U{} + 0x7c00u : r;
  r = magnitude > 0x7f800000u ? U{} + 0x7e00u : r;
  return __builtin_convertvector(sign | r, H);
#endif
}

}  // namespace stoa::ops::cpu::STOA_ISA
