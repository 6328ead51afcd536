#include "ops/cpu/packed_kernels.h"

#include "ops/cpu/gemm_pack.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

typedef std::int8_t Codes __attribute__((vector_size(kLanes)));

template <Element E>
STOA_INLINE void* element_at(void* p, std::int64_t i) {
  return static_cast<char*>(p) + i * (E == Element::kF32 ? 4 : 2);
}

template <Element E>
void unpack_int8_row(const quant::Int8Row& row, void* out) {
  const F scale = splat(row.scale);
  const auto numbers = [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
    Codes codes{};
    std::memcpy(&codes, row.codes + i, static_cast<std::size_t>(n));
    return __builtin_convertvector(__builtin_convertvector(codes, I), F) * scale;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= row.count; i += kLanes) store_as<E>(out, i, numbers(i, kLanes));
  const std::int64_t left = row.count - i;
  if (left > 0) store_first_as<E>(out, i, numbers(i, left), static_cast<int>(left));
}

constexpr std::int64_t kBlock = 64, kGroup = 256;

// The numbers of the 64 codes of a block, of `table`, which holds those of the 16 values of a code.
template <Element E>
STOA_INLINE void look_up(const std::uint8_t* pairs, const void* table, void* out) {
#if STOA_ISA_LEVEL >= 2
  if constexpr (E == Element::kF32) {
    const __m512 numbers = _mm512_loadu_ps(table);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i x =
          _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(pairs + 8 * i)));
      // An index is the low four bits of its 32.
      const __m512i codes = _mm512_or_si512(_mm512_srli_epi64(x, 4), _mm512_slli_epi64(x, 32));
      _mm512_storeu_ps(element_at<E>(out, 16 * i), _mm512_permutexvar_ps(codes, numbers));
    }
  } else {
    // Twice the table: an index is the low five bits of its 16.
    const __m512i numbers = _mm512_broadcast_i64x4(_mm256_loadu_si256(static_cast<const __m256i*>(table)));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m512i x =
          _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + 16 * i)));
      const __m512i codes = _mm512_or_si512(_mm512_srli_epi32(x, 4), _mm512_slli_epi32(x, 16));
      _mm512_storeu_si512(element_at<E>(out, 32 * i), _mm512_permutexvar_epi16(codes, numbers));
    }
  }
#elif STOA_ISA_LEVEL == 1
  if constexpr (E == Element::kF32) {
    const auto* numbers = static_cast<const float*>(table);
    const __m256 low = _mm256_loadu_ps(numbers), high = _mm256_loadu_ps(numbers + 8);
    for (int i = 0; i < 8; ++i) {
      std::int32_t four;
      std::memcpy(&four, pairs + 4 * i, 4);
      const __m256i x = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
      const __m256i codes = _mm256_or_si256(_mm256_srli_epi64(x, 4), _mm256_slli_epi64(x, 32));
      // The low three bits are the index, the fourth says which half.
      _mm256_storeu_ps(
          static_cast<float*>(out) + 8 * i,
          _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, codes), _mm256_permutevar8x32_ps(high, codes),
                           _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28))));
    }
  } else {
    const auto* numbers = static_cast<const __m128i*>(table);
    const __m128i first = _mm_loadu_si128(numbers), second = _mm_loadu_si128(numbers + 1);
    const __m128i byte = _mm_set1_epi16(0xff), half = _mm_set1_epi8(15);
    const __m128i low = _mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte));
    const __m128i high = _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8));
    auto* to = static_cast<__m128i*>(out);
    for (int i = 0; i < 2; ++i) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + 16 * i));
      const __m128i odd = _mm_and_si128(x, half), even = _mm_and_si128(_mm_srli_epi16(x, 4), half);
      for (const __m128i codes : {_mm_unpacklo_epi8(even, odd), _mm_unpackhi_epi8(even, odd)}) {
        const __m128i a = _mm_shuffle_epi8(low, codes), b = _mm_shuffle_epi8(high, codes);
        _mm_storeu_si128(to++, _mm_unpacklo_epi8(a, b));
        _mm_storeu_si128(to++, _mm_unpackhi_epi8(a, b));
      }
    }
  }
#else
  const auto by_size = [&]<class T>(T * to) __attribute__((always_inline)) {
    const auto* numbers = static_cast<const T*>(table);
    for (int i = 0; i < kBlock / 2; ++i) {
      to[2 * i] = numbers[pairs[i] >> 4];
      to[2 * i + 1] = numbers[pairs[i] & 15];
    }
  };
  if constexpr (E == Element::kF32)
    by_size(static_cast<float*>(out));
  else
    by_size(static_cast<std::uint16_t*>(out));
#endif
}

template <Element E>
void unpack_nf4_row(const quant::Nf4Row& row, void* out) {
  const std::int64_t end = row.begin + row.count;
  for (std::int64_t j = row.begin; j < end;) {
    const std::int64_t block = j / kBlock, from = j - block * kBlock,
                       count = least(end, (block + 1) * kBlock) - j;
    const float* group = row.groups + (row.first + block) / kGroup * 2;
    const F magnitude = splat(row.dynamic[row.magnitudes[block]] * group[0] + group[1]);
    alignas(64) float table[16];
#pragma GCC unroll 4
    for (int c = 0; c < 16; c += kLanes) store_as<E>(table, c, load(row.values + c) * magnitude);
    const std::uint8_t* pairs = row.pairs + block * kBlock / 2;
    void* const to = element_at<E>(out, j - row.begin);
    if (count == kBlock) {
      look_up<E>(pairs, table, to);
    } else {
      float whole[kBlock];
      look_up<E>(pairs, table, whole);
      std::memcpy(to, element_at<E>(whole, from),
                  static_cast<std::size_t>(count) * (E == Element::kF32 ? 4 : 2));
    }
    j += count;
  }
}

}  // namespace

const quant::RowKernels& packed_kernels() {
  static constexpr quant::RowKernels kTable{
      {unpack_int8_row<Element::kF32>, unpack_int8_row<Element::kBF16>, unpack_int8_row<Element::kF16>},
      {unpack_nf4_row<Element::kF32>, unpack_nf4_row<Element::kBF16>, unpack_nf4_row<Element::kF16>}};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
