// Vectors of a head's row in a cache (ops/cache_rows.h), converted as they are read.
#pragma once

#include "ops/cache_codes.h"
#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {

// A row in the type E.
template <class E>
struct CachedFloats {
  using Storage = typename E::Storage;
  template <class Part>
  STOA_INLINE F get(const Storage* row, std::int64_t i, std::int64_t, Part part) {
    return E::get(row + i, part);
  }
};

// Codes, then scales.
struct CachedCodes {
  using Storage = std::int8_t;
  typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));

  // The first n codes; the others are 0 and their memory is not touched.
  STOA_INLINE F numbers(const std::int8_t* codes, int n) {
    Bytes bytes{};
    std::memcpy(&bytes, codes, static_cast<std::size_t>(n));
    return __builtin_convertvector(bytes, F);
  }
  STOA_INLINE F numbers(const std::int8_t* codes) {
#if STOA_ISA_LEVEL >= 2
    return reinterpret_cast<F>(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)))));
#elif STOA_ISA_LEVEL == 1
    return reinterpret_cast<F>(
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)))));
#else
    return numbers(codes, kLanes);
#endif
  }
  // Column i's. A bf16 is the upper half of a float: two bytes before it are read too, which are of the row.
  STOA_INLINE F scale(const std::int8_t* row, std::int64_t i, std::int64_t d) {
    std::uint32_t word;
    std::memcpy(&word, row + d + 2 * (i / kCacheColumns) - 2, sizeof(word));
    return reinterpret_cast<F>((U{} + word) & 0xffff0000u);
  }
  STOA_INLINE F get(const std::int8_t* row, std::int64_t i, std::int64_t d, Full) {
    return numbers(row + i) * scale(row, i, d);
  }
  STOA_INLINE F get(const std::int8_t* row, std::int64_t i, std::int64_t d, First f) {
    return numbers(row + i, f.count) * scale(row, i, d);
  }
};

}  // namespace stoa::ops::cpu::STOA_ISA
