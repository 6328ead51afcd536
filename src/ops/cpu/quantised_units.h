// What kernels read of a group of rows (quant/matrix_layout.h): the codes of 32 columns as vectors of words,
// a word of four neighbours for each row, with the rows' scales and minima.
#pragma once

#include <cstddef>

#include "ops/cpu/quantised_kernels.h"
#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {

constexpr int kGroup = 16, kUnitWords = 8, kUnit = 32;  // rows, words of a row and columns of a unit
constexpr int kTokenUnit = 2 * kUnit;                   // bytes of a token: coarse codes, then fine ones

constexpr FormatTraits traits_of(WeightFormat format) { return kFormatTraits[static_cast<int>(format)]; }
// Whether products see all values of eight bits.
constexpr bool whole_bytes(const FormatTraits& traits) { return traits.low_bits == 8 || traits.looks_up; }

// A code, or a sum of products, from those of its two parts.
STOA_INLINE I whole_code(I coarse, I fine) { return coarse * kFineCodes + fine; }

STOA_INLINE U load_words(const std::byte* p) {
  U x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
STOA_INLINE F to_floats(U x) { return __builtin_convertvector(reinterpret_cast<I>(x), F); }
STOA_INLINE F halves_at(const std::byte* p) { return from_f16(load_half(p)); }
// Signed bytes, one of each row.
STOA_INLINE F bytes_at(const std::byte* p) {
#if STOA_ISA_LEVEL >= 2
  __m128i x;
  std::memcpy(&x, p, sizeof x);
  return reinterpret_cast<F>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)));
#else
  F out;
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<float>(static_cast<signed char>(p[i]));
  return out;
#endif
}

// Fetches `bytes` of weights that are needed soon after those at `p`, as far as they lie below `end`: groups
// lie one behind the other. Far ahead into the L2 cache, and from there into that of L1: the processor's own
// prefetcher stops at the end of a page, which costs half of the rate with one token.
STOA_INLINE void fetch_ahead(const std::byte* p, std::int64_t bytes, const std::byte* end) {
  constexpr std::int64_t kFar = 16384, kNear = 1024;
  if (p + kFar < end)
    for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + kFar + i, 0, 2);
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + kNear + i);
}

// 2^(e - 128) of unsigned bytes e, one of each row (quant::half_power).
STOA_INLINE F half_powers_at(const std::byte* p) {
#if STOA_ISA_LEVEL >= 2
  __m128i bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  const U e = reinterpret_cast<U>(_mm512_cvtepu8_epi32(bytes));
#else
  U e;
  for (int i = 0; i < kLanes; ++i) e[i] = static_cast<std::uint32_t>(p[i]);
#endif
  const U small = e == 0u ? U{} + 0x00200000u : U{} + 0x00400000u;
  return reinterpret_cast<F>(e < 2u ? small : (e - 1u) << 23);
}

// Unsigned halves, one of each row.
STOA_INLINE U unsigned_halves_at(const std::byte* p) {
#if STOA_ISA_LEVEL >= 2
  __m256i x;
  std::memcpy(&x, p, sizeof x);
  return reinterpret_cast<U>(_mm512_cvtepu16_epi32(x));
#else
  U out;
  for (int i = 0; i < kLanes; ++i) {
    std::uint16_t half;
    std::memcpy(&half, p + 2 * i, sizeof half);
    out[i] = half;
  }
  return out;
#endif
}

// What the codes of 4 bits in bytes stand for, plus 128.
template <const quant::CodeValues& kValues>
STOA_INLINE U looked_up(U codes) {
  constexpr quant::CodeValues kOwn = kValues;  // no symbol that objects of other instruction sets share
#if STOA_ISA_LEVEL >= 1
  __m128i table;
  std::memcpy(&table, kOwn.data(), sizeof table);
  table = _mm_xor_si128(table, _mm_set1_epi8(static_cast<char>(0x80)));
#endif
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<U>(
      _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), reinterpret_cast<__m512i>(codes)));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<U>(
      _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), reinterpret_cast<__m256i>(codes)));
#else
  U out{};
  for (int i = 0; i < kLanes; ++i)
    for (int byte = 0; byte < 32; byte += 8)
      out[i] |= static_cast<std::uint32_t>(kOwn[(codes[i] >> byte) & 15u] + 128) << byte;
  return out;
#endif
}

struct WeightUnit {
  U codes[kUnitWords];
  F scales[2];
  F minimum;
};

// Rows [row, row + kLanes) of a group.
template <WeightFormat kFormat>
class UnitReader {
 public:
  static constexpr FormatTraits kTraits = traits_of(kFormat);
  static constexpr bool kHasParts = kFormat == WeightFormat::kQ4_K || kFormat == WeightFormat::kQ5_K;

  [[gnu::always_inline]] UnitReader(const std::byte* group, std::int64_t units, int row)
      : low_(group + 4 * row),
        high_(low_ + units * kLowBytes),
        scales_(group + units * (kLowBytes + kHighBytes)),
        row_(row) {}

  // Before the units of block `b`.
  [[gnu::always_inline]] void enter(std::int64_t b) {
    block_ = scales_ + b * kTraits.scale_bytes * kGroup;
    if constexpr (kHasParts) {
      d_ = halves_at(block_ + 2 * row_);
      dmin_ = F{} - halves_at(block_ + 2 * kGroup + 2 * row_);
      const std::byte* words = block_ + 4 * kGroup + 4 * row_;
      const U a = load_words(words), m = load_words(words + 4 * kGroup), c = load_words(words + 8 * kGroup);
      part_scales_[0] = a & 0x3f3f3f3fu;
      part_scales_[1] = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
      part_minima_[0] = m & 0x3f3f3f3fu;
      part_minima_[1] = ((c >> 4) & 0x0f0f0f0fu) | ((m >> 2) & 0x30303030u);
    }
    if constexpr (kFormat == WeightFormat::kQ6_K) d_ = halves_at(block_ + 16 * kGroup + 2 * row_);
    if constexpr (kFormat == WeightFormat::kIQ4_XS) {
      d_ = halves_at(block_ + 2 * row_);
      part_scales_[0] = load_words(block_ + 4 * kGroup + 4 * row_);
      part_scales_[1] = unsigned_halves_at(block_ + 2 * kGroup + 2 * row_);
    }
  }

  // Unit `unit` of the row, number `j` of its block.
  [[gnu::always_inline]] void read(std::int64_t unit, int j, WeightUnit& to) const {
    const std::byte* low = low_ + unit * kLowBytes;
    if constexpr (kTraits.low_bits == 8) {
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g) to.codes[g] = load_words(low + g * 4 * kGroup);
    } else {
#pragma GCC unroll 4
      for (int g = 0; g < kUnitWords / 2; ++g) {
        const U pair = load_words(low + g * 4 * kGroup);
        to.codes[g] = pair & 0x0f0f0f0fu;
        to.codes[g + kUnitWords / 2] = (pair >> 4) & 0x0f0f0f0fu;
      }
    }
    const std::byte* high = high_ + unit * kHighBytes;
    if constexpr (kTraits.high_bits == 1) {
      const U bits = load_words(high);
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g)
        to.codes[g] |= (g < 4 ? bits << (4 - g) : bits >> (g - 4)) & 0x10101010u;
    }
    if constexpr (kTraits.high_bits == 2) {
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g) {
        const U bits = load_words(high + g / 4 * 4 * kGroup);
        const int shift = 4 - 2 * (g % 4);
        to.codes[g] |= (shift >= 0 ? bits << shift : bits >> -shift) & 0x30303030u;
      }
    }
    if constexpr (kTraits.looks_up)
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g) to.codes[g] = looked_up<*kTraits.values>(to.codes[g]);
    read_scales(j, to);
  }

 private:
  static constexpr std::int64_t kLowBytes = kGroup * kUnit * kTraits.low_bits / 8,
                                kHighBytes = kGroup * kUnit * kTraits.high_bits / 8;

  [[gnu::always_inline]] void read_scales(int j, WeightUnit& to) const {
    if constexpr (kHasParts) {
      const int shift = 8 * (j % 4);
      to.scales[0] = d_ * to_floats((part_scales_[j / 4] >> shift) & 0xffu);
      to.minimum = dmin_ * to_floats((part_minima_[j / 4] >> shift) & 0xffu);
    } else if constexpr (kFormat == WeightFormat::kQ6_K) {
      to.scales[0] = d_ * bytes_at(block_ + 2 * j * kGroup + row_);
      to.scales[1] = d_ * bytes_at(block_ + (2 * j + 1) * kGroup + row_);
    } else if constexpr (kFormat == WeightFormat::kIQ4_XS) {
      const U scale = ((part_scales_[0] >> (4 * j)) & 15u) | ((part_scales_[1] >> (2 * j)) & 3u) << 4;
      to.scales[0] = d_ * (to_floats(scale) - 32.0f);
    } else if constexpr (kFormat == WeightFormat::kMXFP4) {
      to.scales[0] = half_powers_at(block_ + row_);
    } else {
      to.scales[0] = halves_at(block_ + 2 * row_);
      if constexpr (kTraits.minimum) to.minimum = halves_at(block_ + 2 * kGroup + 2 * row_);
    }
  }

  const std::byte *low_, *high_, *scales_;
  const int row_;
  const std::byte* block_ = nullptr;
  F d_, dmin_;
  U part_scales_[2], part_minima_[2];
};

}  // namespace stoa::ops::cpu::STOA_ISA
