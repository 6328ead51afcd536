// Elementary functions, typed loads and Philox streams on the vectors of simd.h.
#pragma once

#include "ops/cpu/matrix_args.h"
#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {

typedef std::uint64_t W __attribute__((vector_size(kLanes * 4)));  // half as many 64-bit lanes

// A full vector, or the first `count` lanes of one.
struct Full {};
struct First {
  int count;
};

// Rounds to nearest even and keeps subnormals, as base/half.h: every instruction set stores the same bits.
STOA_INLINE H to_bf16_exactly(F x) {
  const U u = reinterpret_cast<U>(x);
  const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U quiet = (u >> 16) | 0x40u;
  return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, H);
}

struct F32 {
  using Storage = float;
  STOA_INLINE F get(const float* p, Full) { return load(p); }
  STOA_INLINE F get(const float* p, First f) { return load_first(p, f.count); }
  STOA_INLINE void put(float* p, F x, Full) { store(p, x); }
  STOA_INLINE void put(float* p, F x, First f) { store_first(p, x, f.count); }
};
struct BF16 {
  using Storage = std::uint16_t;
  STOA_INLINE F get(const std::uint16_t* p, Full) { return from_bf16(load_half(p)); }
  STOA_INLINE F get(const std::uint16_t* p, First f) { return from_bf16(load_half_first(p, f.count)); }
  STOA_INLINE void put(std::uint16_t* p, F x, Full) { store_half(p, to_bf16_exactly(x)); }
  STOA_INLINE void put(std::uint16_t* p, F x, First f) { store_half_first(p, to_bf16_exactly(x), f.count); }
};
struct F16 {
  using Storage = std::uint16_t;
  STOA_INLINE F get(const std::uint16_t* p, Full) { return from_f16(load_half(p)); }
  STOA_INLINE F get(const std::uint16_t* p, First f) { return from_f16(load_half_first(p, f.count)); }
  STOA_INLINE void put(std::uint16_t* p, F x, Full) { store_half(p, to_f16(x)); }
  STOA_INLINE void put(std::uint16_t* p, F x, First f) { store_half_first(p, to_f16(x), f.count); }
};

// body(i, part) for i = 0, kLanes, 2 kLanes ... and the rest.
template <class Body>
STOA_INLINE void for_vectors(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, First{static_cast<int>(n - i)});
}

// body(tag) with the tag of a type known only at run time.
template <class Body>
STOA_INLINE void with_type(Element type, Body body) {
  switch (type) {
    case Element::kF32:
      body(F32{});
      break;
    case Element::kBF16:
      body(BF16{});
      break;
    case Element::kF16:
      body(F16{});
      break;
  }
}

template <class E>
STOA_INLINE typename E::Storage* row_of(const Rows& rows, std::int64_t r) {
  const std::int64_t outer = rows.inner == 1 ? r : r / rows.inner;
  const std::int64_t offset = outer * rows.stride + (r - outer * rows.inner) * rows.columns;
  return static_cast<typename E::Storage*>(rows.data) + offset;
}

// Any type, selected per access: for operands that are rarely present.
STOA_INLINE void* row_address(const Rows& rows, std::int64_t r) {
  const std::int64_t outer = rows.inner == 1 ? r : r / rows.inner;
  const std::int64_t offset = outer * rows.stride + (r - outer * rows.inner) * rows.columns;
  return static_cast<char*>(rows.data) + offset * (rows.type == Element::kF32 ? 4 : 2);
}
template <class Part>
STOA_INLINE F get_any(Element type, const void* row, std::int64_t i, Part part) {
  if (type == Element::kF32) return F32::get(static_cast<const float*>(row) + i, part);
  if (type == Element::kBF16) return BF16::get(static_cast<const std::uint16_t*>(row) + i, part);
  return F16::get(static_cast<const std::uint16_t*>(row) + i, part);
}
template <class Part>
STOA_INLINE void put_any(Element type, void* row, std::int64_t i, F x, Part part) {
  if (type == Element::kF32) return F32::put(static_cast<float*>(row) + i, x, part);
  if (type == Element::kBF16) return BF16::put(static_cast<std::uint16_t*>(row) + i, x, part);
  F16::put(static_cast<std::uint16_t*>(row) + i, x, part);
}

// 2^n for integral n as float, -252 <= n <= 254, times x.
STOA_INLINE F scale_by_power(F x, F n) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(_mm512_scalef_ps(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(n)));
#else
  const I whole = __builtin_convertvector(n, I);
  const I half = whole >> 1;
  const F a = reinterpret_cast<F>((half + 127) << 23), b = reinterpret_cast<F>((whole - half + 127) << 23);
  return x * a * b;
#endif
}
// Nearest integer, |x| < 2^22.
STOA_INLINE F round_to_integer(F x) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<F>(_mm512_roundscale_ps(reinterpret_cast<__m512>(x), 0));
#else
  const F magic = splat(12582912.0f);  // 1.5 * 2^23
  return (x + magic) - magic;
#endif
}

// e^x within 2 ulp; 0 below -104, infinity above 88.8, NaN stays.
STOA_INLINE F exp(F x) {
  x = select(x < -104.0f, splat(-104.0f), x);
  x = select(x > 89.0f, splat(89.0f), x);
  const F n = round_to_integer(x * 1.44269504f);
  F r = fma(n, splat(-0.693359375f), x);  // ln 2 in two parts, the first exact in products with n
  r = fma(n, splat(2.12194440e-4f), r);
  F p = splat(1.98412698e-4f);  // the Taylor series to r^7: |r| <= 0.347, remainder below 6e-9
  p = fma(p, r, splat(1.38888889e-3f));
  p = fma(p, r, splat(8.33333333e-3f));
  p = fma(p, r, splat(4.16666667e-2f));
  p = fma(p, r, splat(1.66666667e-1f));
  p = fma(p, r, splat(0.5f));
  p = fma(p * r, r, r) + 1.0f;
  return scale_by_power(p, n);
}

// 2^x for x <= 127, 0 below -150. Relative error 2e-7. The coefficients of both are minimax for the relative
// error, fitted with Lawson's iteration.
STOA_INLINE F exp2(F x) {
  x = select(x < -150.0f, splat(-150.0f), x);
  const F n = round_to_integer(x);
  const F r = x - n;
  F p = fma(splat(1.534581156e-04f), r, splat(1.339993122e-03f));
  p = fma(p, r, splat(9.618488959e-03f));
  p = fma(p, r, splat(5.550328777e-02f));
  p = fma(p, r, splat(2.402264689e-01f));
  p = fma(p, r, splat(6.931472057e-01f));
  p = fma(p, r, splat(1.0f));
  return scale_by_power(p, n);
}

#if STOA_ISA_LEVEL >= 2
// 2^x with relative error 3e-6, for results that become bf16: the fraction of x (0 for infinities) is reduced
// to [0, 1), and scalef applies the integer part.
STOA_INLINE F exp2_roughly(F x) {
  const auto v = reinterpret_cast<__m512>(x);
  const F r = reinterpret_cast<F>(_mm512_reduce_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
  F p = fma(splat(1.353416724e-02f), r, splat(5.201146191e-02f));
  p = fma(p, r, splat(2.414427561e-01f));
  p = fma(p, r, splat(6.930038346e-01f));
  p = fma(p, r, splat(1.000002593e+00f));
  return reinterpret_cast<F>(_mm512_scalef_ps(reinterpret_cast<__m512>(p), v));
}
#endif

// The functions used by activations, accurate to fp32.
struct Exact {
  STOA_INLINE F exp(F x) { return STOA_ISA::exp(x); }
  STOA_INLINE F reciprocal(F x) { return 1.0f / x; }
};
#if STOA_ISA_LEVEL >= 2
// The same for results that become 16 bits wide: relative error 4e-6, in a third of the time.
struct Rough {
  // At most 2^126, whose reciprocal is still finite and not zero. NaN stays.
  STOA_INLINE F exp(F x) {
    const F power = x * 1.44269504f;
    return exp2_roughly(reinterpret_cast<F>(
        _mm512_min_ps(reinterpret_cast<__m512>(splat(126.0f)), reinterpret_cast<__m512>(power))));
  }
  // For x from 1 to 2^126: an estimate with 14 bits and a Newton step.
  STOA_INLINE F reciprocal(F x) {
    const F y = reinterpret_cast<F>(_mm512_rcp14_ps(reinterpret_cast<__m512>(x)));
    return y * (2.0f - x * y);
  }
};
#else
using Rough = Exact;
#endif

template <class Math = Exact>
STOA_INLINE F sigmoid(F x) {
  return Math::reciprocal(1.0f + Math::exp(-x));
}

// Within 4 ulp: the Taylor series to x^9 up to 1/4 (remainder 1e-8), the exponential beyond.
STOA_INLINE F tanh(F x) {
  const F size = abs(x), e = exp(size * -2.0f), square = x * x;
  const F large = (1.0f - e) / (1.0f + e);
  F p = splat(2.18694885e-2f);
  p = fma(p, square, splat(-5.39682540e-2f));
  p = fma(p, square, splat(1.33333333e-1f));
  p = fma(p, square, splat(-3.33333333e-1f));
  const F small = fma(p * square, x, x);
  return select(size < 0.25f, small, select(x < 0.0f, -large, large));
}

// The normal distribution function, to about 2e-7 of itself on both sides of 0.
// erfc(z) e^(z^2) / t is a polynomial in t = 1 / (1 + z/2) for 0 <= z <= 10, fitted for relative error
// (3.4e-9).
template <class Math>
STOA_INLINE F normal_cdf(F x) {
  const F z = abs(x) * 0.70710678f;
  const F t = Math::reciprocal(fma(z, splat(0.5f), splat(1.0f)));
  F p = splat(3.537577830e-02f);
  p = fma(p, t, splat(-1.887080787e-01f));
  p = fma(p, t, splat(3.753624690e-01f));
  p = fma(p, t, splat(-2.805033706e-01f));
  p = fma(p, t, splat(-3.063876657e-02f));
  p = fma(p, t, splat(4.090260623e-02f));
  p = fma(p, t, splat(5.254533521e-02f));
  p = fma(p, t, splat(1.862481417e-01f));
  p = fma(p, t, splat(2.450639281e-01f));
  p = fma(p, t, splat(2.822639372e-01f));
  p = fma(p, t, splat(2.820880236e-01f));
  const F tail = p * t * Math::exp(x * x * -0.5f) * 0.5f;
  return select(x < 0.0f, tail, 1.0f - tail);
}

// High and low words of a * b, lane by lane.
STOA_INLINE void multiply_wide(U a, std::uint32_t b, U& high, U& low) {
  const W factor = W{} + b;
  const W bits = reinterpret_cast<W>(a);
#if STOA_ISA_LEVEL >= 2
  const W even = reinterpret_cast<W>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(bits), reinterpret_cast<__m512i>(factor)));
  const W odd = reinterpret_cast<W>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(bits >> 32), reinterpret_cast<__m512i>(factor)));
#elif STOA_ISA_LEVEL == 1
  const W even = reinterpret_cast<W>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(bits), reinterpret_cast<__m256i>(factor)));
  const W odd = reinterpret_cast<W>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(bits >> 32), reinterpret_cast<__m256i>(factor)));
#else
  const W even = (bits & 0xffffffffu) * factor;
  const W odd = (bits >> 32) * factor;
#endif
  low = reinterpret_cast<U>((even & 0xffffffffu) | (odd << 32));
  high = reinterpret_cast<U>((even >> 32) | (odd & 0xffffffff00000000u));
}

// philox4x32 (base/philox.h) on kLanes counters at once.
STOA_INLINE void philox(std::uint32_t key_lo, std::uint32_t key_hi, U& c0, U& c1, U& c2, U& c3) {
  for (int round = 0; round < 10; ++round) {
    U h0, l0, h1, l1;
    multiply_wide(c0, 0xD2511F53u, h0, l0);
    multiply_wide(c2, 0xCD9E8D57u, h1, l1);
    c0 = h1 ^ c1 ^ key_lo;
    c1 = l1;
    c2 = h0 ^ c3 ^ key_hi;
    c3 = l0;
    key_lo += 0x9E3779B9u;
    key_hi += 0xBB67AE85u;
  }
}

// Factors 0 or `scale` for random words: dropped if uniform_from_word(word) < p.
STOA_INLINE F dropout_factor(U word, float p, float scale) {
  const F uniform = __builtin_convertvector(reinterpret_cast<I>(word >> 8), F) * 0x1p-24f;
  return select(uniform < p, F{}, splat(scale));
}

constexpr std::int64_t kDropoutPiece = 256;

// Dropout factors of elements [first, first + n) of the stream, n <= kDropoutPiece.
inline void dropout_factors(const DropoutArgs& dropout, std::int64_t first, std::int64_t n, float* out) {
  alignas(64) std::uint32_t words[kDropoutPiece + 8 * kLanes];
  const std::uint64_t block = static_cast<std::uint64_t>(first) >> 2;
  const auto skip = static_cast<std::int64_t>(static_cast<std::uint64_t>(first) & 3u);
  U lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<std::uint32_t>(i);
  for (std::int64_t done = 0; done < skip + n; done += 4 * kLanes) {
    const std::uint64_t at = block + static_cast<std::uint64_t>(done >> 2);
    U c0 = lane + static_cast<std::uint32_t>(at);
    U c1 = U{} + static_cast<std::uint32_t>(at >> 32);
    c1 = c0 < static_cast<std::uint32_t>(at) ? c1 + 1u : c1;  // carry
    U c2{}, c3{};
    philox(dropout.key_lo, dropout.key_hi, c0, c1, c2, c3);
    for (int i = 0; i < kLanes; ++i) {
      std::uint32_t* w = words + done + 4 * i;
      w[0] = c0[i], w[1] = c1[i], w[2] = c2[i], w[3] = c3[i];
    }
  }
  for_vectors(n, [&](std::int64_t i, auto part) {
    U word;
    __builtin_memcpy(&word, words + skip + i, sizeof word);
    F32::put(out + i, dropout_factor(word, dropout.p, dropout.scale), part);
  });
}

}  // namespace stoa::ops::cpu::STOA_ISA
