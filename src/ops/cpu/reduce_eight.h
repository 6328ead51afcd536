// Sums of the lanes of eight vectors at once, in one order for each of them.
#pragma once

#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {

// sums[i] = the sum of the lanes of x[i].
STOA_INLINE void reduce8(const F (&x)[8], float* sums) {
#if STOA_ISA_LEVEL >= 2
  __m512 s[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto a = reinterpret_cast<__m512>(x[2 * i]), b = reinterpret_cast<__m512>(x[2 * i + 1]);
    s[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  }
  __m512 t[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512d a = _mm512_castps_pd(s[2 * i]), b = _mm512_castps_pd(s[2 * i + 1]);
    t[i] =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  __m512 u = _mm512_add_ps(_mm512_shuffle_f32x4(t[0], t[1], 0x88), _mm512_shuffle_f32x4(t[0], t[1], 0xdd));
  u = _mm512_add_ps(u, _mm512_shuffle_f32x4(u, u, 0xb1));
  _mm256_storeu_ps(sums, _mm512_castps512_ps256(_mm512_shuffle_f32x4(u, u, 0x08)));
#else
  for (int i = 0; i < 8; ++i) sums[i] = reduce_add(x[i]);
#endif
}

}  // namespace stoa::ops::cpu::STOA_ISA
