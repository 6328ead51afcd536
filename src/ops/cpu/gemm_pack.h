// Packing of operands into panels (gemm_kernels.h says how panels look). Part of gemm_kernels.cc.
#pragma once

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {

STOA_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// --- elements as vectors of floats ---

template <Element E>
STOA_INLINE F load_as(const void* p, std::int64_t i) {
  if constexpr (E == Element::kF32)
    return load(static_cast<const float*>(p) + i);
  else if constexpr (E == Element::kBF16)
    return from_bf16(load_half(static_cast<const std::uint16_t*>(p) + i));
  else
    return from_f16(load_half(static_cast<const std::uint16_t*>(p) + i));
}
template <Element E>
STOA_INLINE F load_first_as(const void* p, std::int64_t i, int n) {
  if constexpr (E == Element::kF32)
    return load_first(static_cast<const float*>(p) + i, n);
  else if constexpr (E == Element::kBF16)
    return from_bf16(load_half_first(static_cast<const std::uint16_t*>(p) + i, n));
  else
    return from_f16(load_half_first(static_cast<const std::uint16_t*>(p) + i, n));
}
template <Element E>
STOA_INLINE void store_as(void* p, std::int64_t i, F x) {
  if constexpr (E == Element::kF32)
    store(static_cast<float*>(p) + i, x);
  else if constexpr (E == Element::kBF16)
    store_half(static_cast<std::uint16_t*>(p) + i, to_bf16(x));
  else
    store_half(static_cast<std::uint16_t*>(p) + i, to_f16(x));
}
template <Element E>
STOA_INLINE void store_first_as(void* p, std::int64_t i, F x, int n) {
  if constexpr (E == Element::kF32)
    store_first(static_cast<float*>(p) + i, x, n);
  else if constexpr (E == Element::kBF16)
    store_half_first(static_cast<std::uint16_t*>(p) + i, to_bf16(x), n);
  else
    store_half_first(static_cast<std::uint16_t*>(p) + i, to_f16(x), n);
}

// Calls body.template operator()<E>().
template <class Body>
STOA_INLINE void dispatch(Element e, Body&& body) {
  switch (e) {
    case Element::kF32:
      return body.template operator()<Element::kF32>();
    case Element::kBF16:
      return body.template operator()<Element::kBF16>();
    case Element::kF16:
      return body.template operator()<Element::kF16>();
  }
}

STOA_INLINE void* output_row(const StoreJob& store, std::int64_t row) {
  return static_cast<char*>(store.out) + row * store.out_stride * (store.element == Element::kF32 ? 4 : 2);
}

// What a unit is made of: E converted to float, or a pair of bf16.
template <Element E>
struct FloatOf {
  static constexpr int kElements = 1, kBytes = E == Element::kF32 ? 4 : 2;
  // The first n units that start at element i of a row.
  STOA_INLINE U load_row(const void* p, std::int64_t i, std::int64_t elements) {
    if (elements >= kLanes) return reinterpret_cast<U>(load_as<E>(p, i));
    return reinterpret_cast<U>(load_first_as<E>(p, i, static_cast<int>(elements)));
  }
  // One unit of n columns from element i; `next`: elements to the next reduction index, 0 if there is none.
  STOA_INLINE U load_columns(const void* p, std::int64_t i, std::int64_t n, std::int64_t) {
    return load_row(p, i, n);
  }
};
struct PairOf {
  static constexpr int kElements = 2, kBytes = 2;
  STOA_INLINE U load_row(const void* p, std::int64_t i, std::int64_t elements) {
    const auto* at = static_cast<const std::uint16_t*>(p) + i;
    if (elements >= 2 * kLanes) {
      U x;
      std::memcpy(&x, at, sizeof(x));
      return x;
    }
#if STOA_ISA_LEVEL >= 2
    return reinterpret_cast<U>(_mm512_maskz_loadu_epi16(static_cast<__mmask32>((1ull << elements) - 1), at));
#else
    U x{};
    std::memcpy(&x, at, static_cast<std::size_t>(elements) * 2);
    return x;
#endif
  }
  STOA_INLINE U load_columns(const void* p, std::int64_t i, std::int64_t n, std::int64_t next) {
    const auto* at = static_cast<const std::uint16_t*>(p) + i;
    const bool full = n >= kLanes;
    const H first = full ? load_half(at) : load_half_first(at, static_cast<int>(n));
    H second{};
    if (next) second = full ? load_half(at + next) : load_half_first(at + next, static_cast<int>(n));
    return __builtin_convertvector(first, U) | (__builtin_convertvector(second, U) << 16);
  }
};

template <class Unit>
STOA_INLINE void prefetch_run(const PackJob& job, std::int64_t row) {
  const auto* p = static_cast<const char*>(job.source) + (row * job.stride + job.first) * Unit::kBytes;
  for (const auto* end = p + (job.end - job.first) * Unit::kBytes; p < end; p += 64)
    __builtin_prefetch(p, 0, 2);
}

#if STOA_ISA_LEVEL >= 2
// Transposes 16 x 16 units in registers.
STOA_INLINE void transpose16(U (&r)[16]) {
  __m512 a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const auto x = reinterpret_cast<__m512>(r[2 * i]), y = reinterpret_cast<__m512>(r[2 * i + 1]);
    a[2 * i] = _mm512_unpacklo_ps(x, y);
    a[2 * i + 1] = _mm512_unpackhi_ps(x, y);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)  // lane L of b[4 i + c]: rows 4 i … 4 i + 3 of column 4 L + c
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const auto x = _mm512_castps_pd(a[4 * i + h]), y = _mm512_castps_pd(a[4 * i + 2 + h]);
      b[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      b[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 p = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88),
                 q = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
    const __m512 s = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd),
                 t = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
    r[c] = reinterpret_cast<U>(_mm512_shuffle_f32x4(p, q, 0x88));
    r[8 + c] = reinterpret_cast<U>(_mm512_shuffle_f32x4(p, q, 0xdd));
    r[4 + c] = reinterpret_cast<U>(_mm512_shuffle_f32x4(s, t, 0x88));
    r[12 + c] = reinterpret_cast<U>(_mm512_shuffle_f32x4(s, t, 0xdd));
  }
}

// Transposes 8 rows of 16 units: r[i] becomes units 2 i and 2 i + 1 of the 8 rows.
STOA_INLINE void transpose8(U (&r)[8]) {
  __m512 a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto x = reinterpret_cast<__m512>(r[2 * i]), y = reinterpret_cast<__m512>(r[2 * i + 1]);
    a[2 * i] = _mm512_unpacklo_ps(x, y);
    a[2 * i + 1] = _mm512_unpackhi_ps(x, y);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const auto x = _mm512_castps_pd(a[4 * i + h]), y = _mm512_castps_pd(a[4 * i + 2 + h]);
      b[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      b[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  // lane L of b[c]: rows 0 … 3 of unit 4 L + c; of b[4 + c]: rows 4 … 7
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);     // lanes 0, 0', 1, 1'
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);  // lanes 2, 2', 3, 3'
  __m512d u[4], v[4];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    u[c] =
        _mm512_permutex2var_pd(_mm512_castps_pd(b[c]), low, _mm512_castps_pd(b[4 + c]));  // units c and 4 + c
    v[c] = _mm512_permutex2var_pd(_mm512_castps_pd(b[c]), high,
                                  _mm512_castps_pd(b[4 + c]));  // units 8 + c and 12 + c
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    r[h] = reinterpret_cast<U>(_mm512_shuffle_f64x2(u[2 * h], u[2 * h + 1], 0x44));
    r[2 + h] = reinterpret_cast<U>(_mm512_shuffle_f64x2(u[2 * h], u[2 * h + 1], 0xee));
    r[4 + h] = reinterpret_cast<U>(_mm512_shuffle_f64x2(v[2 * h], v[2 * h + 1], 0x44));
    r[6 + h] = reinterpret_cast<U>(_mm512_shuffle_f64x2(v[2 * h], v[2 * h + 1], 0xee));
  }
}
#endif

constexpr int kFetchGroups = 2;
constexpr std::int64_t kForeseen =
    512;                     // bytes of a memory row, from where fetching ahead is left to the processor
constexpr int kAhead = 512;  // bytes of a memory row that are fetched before they are needed

// Rows of the operand run along the reduction in memory: `rows` <= W of them from row `first` become one
// panel.
template <class Unit, int W>
void pack_rows(const PackJob& job, std::int64_t first, std::int64_t rows, std::uint32_t* panel) {
  constexpr int kE = Unit::kElements;
  constexpr int kGroup = kLanes < 16 ? W : W < 16 ? 8 : 16;  // rows at a time
  static_assert(W % kGroup == 0);
  const std::int64_t units = (job.count + kE - 1) / kE;
  for (int g = 0; g < W; g += kGroup)
    for (std::int64_t u = 0; u < units; u += kLanes) {
      const std::int64_t elements = job.count - u * kE;
      const int n = static_cast<int>(least(kLanes, units - u));
      const std::int64_t at = (first + g) * job.stride + job.begin + u * kE;
      std::uint32_t* to = panel + u * W + g;
#if STOA_ISA_LEVEL >= 2
      U r[kGroup];
      if (g + kGroup <= rows && n == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kGroup; ++i) {
          __builtin_prefetch(
              static_cast<const char*>(job.source) + (at + i * job.stride) * Unit::kBytes + kAhead, 0, 2);
          r[i] = Unit::load_row(job.source, at + i * job.stride, elements);
        }
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < kGroup; ++i)
          r[i] = g + i < rows ? Unit::load_row(job.source, at + i * job.stride, elements) : U{};
      }
      if constexpr (kGroup == 8) {
        transpose8(r);
        if (n == kLanes) {
#pragma GCC unroll 8
          for (int i = 0; i < 8; ++i) std::memcpy(to + 16 * i, &r[i], 64);
        } else {
          for (int i = 0; i < n; ++i) std::memcpy(to + 8 * i, reinterpret_cast<const char*>(r) + 32 * i, 32);
        }
      } else {
        transpose16(r);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i)
          if (i < n) std::memcpy(to + i * W, &r[i], 64);
      }
#else
      for (std::int64_t i = 0; i < W; ++i) {
        U x{};
        if (i < rows) x = Unit::load_row(job.source, at + i * job.stride, elements);
        std::uint32_t lanes[kLanes];
        std::memcpy(lanes, &x, sizeof(lanes));
        for (int k = 0; k < n; ++k) to[k * W + i] = lanes[k];
      }
#endif
    }
}

#if STOA_ISA_LEVEL >= 2
// Two memory rows of 32 16-bit elements: a unit of a panel of 32 rows.
STOA_INLINE void pack_columns_2x32(const std::uint16_t* from, std::int64_t stride, std::uint32_t* to) {
  const __m512i x = _mm512_loadu_si512(from), y = _mm512_loadu_si512(from + stride);
  const __m512i low = _mm512_unpacklo_epi16(x, y), high = _mm512_unpackhi_epi16(x, y);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(low, second, high));
}
#endif

#if STOA_ISA_LEVEL >= 3
// Four memory rows of 32 bf16: two units of four panels of eight rows.
STOA_INLINE void pack_columns_4x32(const std::uint16_t* from, std::int64_t stride, std::uint32_t* to,
                                   std::int64_t panel_stride) {
  const __m512i x0 = _mm512_loadu_si512(from), x1 = _mm512_loadu_si512(from + stride);
  const __m512i x2 = _mm512_loadu_si512(from + 2 * stride), x3 = _mm512_loadu_si512(from + 3 * stride);
  // 128-bit lane p belongs to panel p: its columns 0 … 3 and 4 … 7 of one unit
  const __m512i a = _mm512_unpacklo_epi16(x0, x1), b = _mm512_unpackhi_epi16(x0, x1);
  const __m512i c = _mm512_unpacklo_epi16(x2, x3), d = _mm512_unpackhi_epi16(x2, x3);
  const __m512i ab = _mm512_shuffle_i32x4(a, b, 0x44), cd = _mm512_shuffle_i32x4(c, d, 0x44);  // panels 0, 1
  const __m512i ef = _mm512_shuffle_i32x4(a, b, 0xee), gh = _mm512_shuffle_i32x4(c, d, 0xee);  // panels 2, 3
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(ab, cd, 0x88));
  _mm512_storeu_si512(to + panel_stride, _mm512_shuffle_i32x4(ab, cd, 0xdd));
  _mm512_storeu_si512(to + 2 * panel_stride, _mm512_shuffle_i32x4(ef, gh, 0x88));
  _mm512_storeu_si512(to + 3 * panel_stride, _mm512_shuffle_i32x4(ef, gh, 0xdd));
}
#endif

// Rows of the operand are columns in memory: all panels of the job together, so that memory is read in long
// runs. A few units at a time: panels often lie a power of two apart, and their lines would evict each other.
template <class Unit, int W>
void pack_columns(const PackJob& job) {
  constexpr int kE = Unit::kElements, kGroup = 8;
  constexpr int kStep = W < kLanes ? W : kLanes;
  const std::int64_t units = (job.count + kE - 1) / kE, run = (job.end - job.first) * Unit::kBytes;
  for (std::int64_t u0 = 0; u0 < units; u0 += kGroup) {
    const std::int64_t u1 = least(u0 + kGroup, units);
    // Memory rows are far apart, mostly on different pages: the processor foresees only long runs.
    if (run <= kForeseen) {
      const std::int64_t later = least(job.count, (u1 + (kFetchGroups + 1) * kGroup) * kE);
      for (std::int64_t r = (u1 + kFetchGroups * kGroup) * kE; r < later; ++r)
        prefetch_run<Unit>(job, job.begin + r);
    }
    std::uint32_t* panel = job.panels;
    std::int64_t m = job.first;
#if STOA_ISA_LEVEL >= 3
    if constexpr (kE == 2 && W == 8)
      if (u0 + kGroup <= job.count / 2)
        for (; m + 4 * W <= job.end; m += 4 * W, panel += 4 * job.panel_stride)
          for (std::int64_t u = u0; u < u1; u += 2)
            pack_columns_4x32(
                static_cast<const std::uint16_t*>(job.source) + (job.begin + u * kE) * job.stride + m,
                job.stride, panel + u * W, job.panel_stride);
#endif
#if STOA_ISA_LEVEL >= 2
    if constexpr (kE == 2 && W == 32)
      if (u1 <= job.count / 2)
        for (; m + W <= job.end; m += W, panel += job.panel_stride)
          for (std::int64_t u = u0; u < u1; ++u)
            pack_columns_2x32(
                static_cast<const std::uint16_t*>(job.source) + (job.begin + u * kE) * job.stride + m,
                job.stride, panel + u * W);
#endif
    for (; m < job.end; m += W, panel += job.panel_stride) {
      const bool full = job.end - m >= W;
      for (std::int64_t u = u0; u < u1; ++u) {
        const std::int64_t at = (job.begin + u * kE) * job.stride + m;
        const std::int64_t next = kE == 2 && 2 * u + 1 < job.count ? job.stride : 0;
        std::uint32_t* to = panel + u * W;
        if (full) {
#pragma GCC unroll 3
          for (int i = 0; i < W; i += kStep) {
            const U x = Unit::load_columns(job.source, at + i, kStep, next);
            std::memcpy(to + i, &x, kStep * 4);
          }
        } else {
          for (int i = 0; i < W; i += kStep) {
            const std::int64_t n = job.end - m - i;
            const U x = n > 0 ? Unit::load_columns(job.source, at + i, least(n, kStep), next) : U{};
            std::memcpy(to + i, &x, kStep * 4);
          }
        }
      }
    }
  }
}

template <class Unit, int W>
void pack_units(const PackJob& job) {
  if (!job.rows_contiguous) return pack_columns<Unit, W>(job);
  std::uint32_t* panel = job.panels;
  for (std::int64_t m = job.first; m < job.end; m += W, panel += job.panel_stride)
    pack_rows<Unit, W>(job, m, least(W, job.end - m), panel);
}

template <int W>
void pack_floats(const PackJob& job) {
  dispatch(job.element, [&]<Element E>() { pack_units<FloatOf<E>, W>(job); });
}

}  // namespace stoa::ops::cpu::STOA_ISA
