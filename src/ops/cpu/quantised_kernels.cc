// Processors with AVX-512-BF16 have AVX-512-VNNI (instruction_set.cc asks for both).
#if STOA_ISA_LEVEL >= 3
#pragma GCC target("avx512vnni")
#endif

#include "ops/cpu/quantised_kernels.h"

#include "ops/cpu/quantised_store.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// --- tokens in codes ---

// The nearest integers, halves to even.
STOA_INLINE I nearest(F x) {
#if STOA_ISA_LEVEL >= 2
  return reinterpret_cast<I>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(x)));
#elif STOA_ISA_LEVEL == 1
  return reinterpret_cast<I>(_mm256_cvtps_epi32(reinterpret_cast<__m256>(x)));
#else
  I out;
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<std::int32_t>(__builtin_rintf(x[i]));
  return out;
#endif
}

STOA_INLINE void store_bytes(std::int8_t* to, I x) {
#if STOA_ISA_LEVEL >= 2
  const __m128i bytes = _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(x));
  std::memcpy(to, &bytes, sizeof bytes);
#else
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<std::int8_t>(x[i]);
#endif
}

STOA_INLINE std::int32_t lanes_sum(I x) {
#if STOA_ISA_LEVEL >= 2
  return _mm512_reduce_add_epi32(reinterpret_cast<__m512i>(x));
#else
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
#endif
}

// The largest lane of magnitudes as bits, so that what is not a number is the largest.
STOA_INLINE std::uint32_t largest_bits(U x) {
#if STOA_ISA_LEVEL >= 2
  return _mm512_reduce_max_epu32(reinterpret_cast<__m512i>(x));
#else
  std::uint32_t most = 0;
  for (int i = 0; i < kLanes; ++i) most = x[i] > most ? x[i] : most;
  return most;
#endif
}

constexpr int kVectors = kUnit / kLanes;

// The largest magnitude of columns [at, at + columns), whole units.
template <Element E>
STOA_INLINE float largest_magnitude(const void* x, std::int64_t at, std::int64_t columns) {
  U most{};
  for (std::int64_t i = 0; i < columns; i += kLanes) {
    const U magnitude = reinterpret_cast<U>(load_as<E>(x, at + i)) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  const std::uint32_t bits = largest_bits(most);
  float largest;
  std::memcpy(&largest, &bits, 4);
  return largest;
}

template <Element E>
STOA_INLINE void encode_unit(const void* x, std::int64_t at, float inverse, std::int8_t* codes,
                             std::int32_t* half_sums, std::int64_t stride, float& sum) {
  std::int32_t sums[2] = {};
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) {
    const F exact = load_as<E>(x, at + i * kLanes) * splat(inverse);
    const I coarse = nearest(exact),
            fine = nearest((exact - __builtin_convertvector(coarse, F)) * splat(kFineCodes));
    store_bytes(codes + i * kLanes, coarse);
    store_bytes(codes + kUnit + i * kLanes, fine);
    sums[i * kLanes / 16] += lanes_sum(whole_code(coarse, fine));
  }
  half_sums[0] = sums[0];
  half_sums[stride] = sums[1];
  sum = static_cast<float>(sums[0] + sums[1]);
}

// Token `t` of tile `tile`.
template <Element E>
STOA_INLINE void encode_token(const EncodeJob& job, std::int64_t tile, std::int64_t t) {
  const TokenCodes& to = job.to;
  const std::int64_t height = to.height, row = (tile * height + t) * job.stride;
  for (std::int64_t b = 0; b < to.blocks(); ++b) {
    const std::int64_t first = b * kScaledUnits, end = least(first + kScaledUnits, to.units);
    const float largest = largest_magnitude<E>(job.x, row + first * kUnit, (end - first) * kUnit);
    to.scales[(tile * to.blocks() + b) * height + t] = largest / (kCoarseCode * kFineCodes);
    const float inverse = largest <= kLeastRounded ? 0.0f : kCoarseCode / largest;
    for (std::int64_t u = first; u < end; ++u) {
      const std::int64_t unit = tile * to.units + u, at = unit * height + t;
      encode_unit<E>(job.x, row + u * kUnit, inverse, to.codes + at * kTokenUnit,
                     to.half_sums + 2 * unit * height + t, height, to.sums[at]);
    }
  }
}

// A token that does not exist.
STOA_INLINE void clear_token(const TokenCodes& to, std::int64_t tile, std::int64_t t) {
  const std::int64_t height = to.height;
  for (std::int64_t b = 0; b < to.blocks(); ++b) to.scales[(tile * to.blocks() + b) * height + t] = 0;
  for (std::int64_t unit = tile * to.units; unit < (tile + 1) * to.units; ++unit) {
    std::memset(to.codes + (unit * height + t) * kTokenUnit, 0, kTokenUnit);
    std::int32_t* const half_sums = to.half_sums + 2 * unit * height + t;
    half_sums[0] = half_sums[height] = 0;
    to.sums[unit * height + t] = 0;
  }
}

void encode(const EncodeJob& job) {
  const std::int64_t height = job.to.height;
  dispatch(
      job.element, [&]<Element E>() __attribute__((always_inline)) {
        for (std::int64_t tile = job.first; tile < job.end; ++tile)
          for (std::int64_t t = 0; t < height; ++t)
            if (tile * height + t < job.tokens)
              encode_token<E>(job, tile, t);
            else
              clear_token(job.to, tile, t);
      });
}

// --- products ---

// Whole bytes are unsigned for VNNI, signed otherwise: products of two neighbours then fit into 16 bits.
template <WeightFormat kFormat>
constexpr bool kSignedCodes = STOA_ISA_LEVEL < 3 && whole_bytes(traits_of(kFormat));
template <WeightFormat kFormat>
constexpr int kZero = kSignedCodes<kFormat> ? 0 : traits_of(kFormat).zero;

// sums[row] += the products of the row's four codes with those of a token.
template <WeightFormat kFormat>
STOA_INLINE I add_products(I sums, U codes, const std::int8_t* token) {
#if STOA_ISA_LEVEL >= 1
  std::int32_t four;
  std::memcpy(&four, token, 4);
#endif
#if STOA_ISA_LEVEL >= 3
  return reinterpret_cast<I>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums),
                                                 reinterpret_cast<__m512i>(codes), _mm512_set1_epi32(four)));
#elif STOA_ISA_LEVEL == 2
  auto w = reinterpret_cast<__m512i>(codes);
  __m512i x = _mm512_set1_epi32(four);
  if constexpr (kSignedCodes<kFormat>) {
    w = _mm512_xor_si512(w, _mm512_set1_epi8(static_cast<char>(0x80)));
    x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    w = _mm512_abs_epi8(w);
  }
  const __m512i pairs = _mm512_maddubs_epi16(w, x);
  return sums + reinterpret_cast<I>(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#elif STOA_ISA_LEVEL == 1
  auto w = reinterpret_cast<__m256i>(codes);
  __m256i x = _mm256_set1_epi32(four);
  if constexpr (kSignedCodes<kFormat>) {
    w = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
    x = _mm256_sign_epi8(x, w);
    w = _mm256_abs_epi8(w);
  }
  const __m256i pairs = _mm256_maddubs_epi16(w, x);
  return sums + reinterpret_cast<I>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
  for (int i = 0; i < 4; ++i) {
    const I code = reinterpret_cast<I>((codes >> (8 * i)) & 0xffu) - (kSignedCodes<kFormat> ? 128 : 0);
    sums += code * static_cast<std::int32_t>(token[i]);
  }
  return sums;
#endif
}

// Tokens [token, token + kTokens) of a tile times rows [row, row + kLanes) of a group.
template <WeightFormat kFormat, int kTokens>
void rows_of_group(const WeightsJob& job, const std::byte* group, int row, std::int64_t tile,
                   std::int64_t token, F* y) {
  constexpr FormatTraits kTraits = traits_of(kFormat);
  constexpr int kWords = kUnitWords / kTraits.parts;
  const TokenCodes& x = job.x;
  const std::int64_t height = x.height;
  const std::int64_t first = tile * x.units * height + token;
  const std::int8_t* codes = x.codes + first * kTokenUnit;
  const float *scales = x.scales + tile * x.blocks() * height + token, *code_sums = x.sums + first;
  const std::int32_t* half_sums = x.half_sums + 2 * tile * x.units * height + token;
  F sums[kTokens] = {}, total[kTokens] = {};  // of kScaledColumns, of all
  UnitReader<kFormat> reader(group, x.units, row);
  WeightUnit unit;
  const std::int64_t unit_bytes = job.group_bytes / x.units;
  const bool first_use = row == 0 && first == 0;  // later ones find the group in a cache
  for (std::int64_t u = 0, b = 0; u < x.units; ++b) {
    reader.enter(b);
    for (int j = 0; j < kTraits.block_units; ++j, ++u) {
      if (first_use) fetch_ahead(group + u * unit_bytes, unit_bytes, job.fetched);
      reader.read(u, j, unit);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const std::int8_t* const token_codes = codes + t * kTokenUnit;
        I coarse[kTraits.parts], fine[kTraits.parts];
#pragma GCC unroll 2
        for (int part = 0; part < kTraits.parts; ++part) {
          std::int32_t code_sum = 0;
          if constexpr (kZero<kFormat> != 0) {
            code_sum = half_sums[part * height + t];
            if constexpr (kTraits.parts == 1) code_sum += half_sums[height + t];
          }
          coarse[part] = I{};
          fine[part] = I{} - kZero<kFormat> * code_sum;
        }
#pragma GCC unroll 8
        for (int g = 0; g < kUnitWords; ++g) {
          I &c = coarse[g / kWords], &f = fine[g / kWords];
          c = add_products<kFormat>(c, unit.codes[g], token_codes + 4 * g);
          f = add_products<kFormat>(f, unit.codes[g], token_codes + kUnit + 4 * g);
        }
#pragma GCC unroll 2
        for (int part = 0; part < kTraits.parts; ++part)
          sums[t] = fma(__builtin_convertvector(whole_code(coarse[part], fine[part]), F), unit.scales[part],
                        sums[t]);
        if constexpr (kTraits.minimum) sums[t] = fma(unit.minimum, splat(code_sums[t]), sums[t]);
      }
      codes += height * kTokenUnit;
      code_sums += height;
      half_sums += 2 * height;
      if ((u + 1) % kScaledUnits != 0 && u + 1 != x.units) continue;
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        total[t] = fma(sums[t], splat(scales[t]), total[t]);
        sums[t] = F{};
      }
      scales += height;
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) y[t] = total[t];
}

template <WeightFormat kFormat, int kTokens>
void groups_of(const WeightsJob& job) {
  const std::int64_t height = job.x.height;
  for (std::int64_t g = job.first; g < job.end; ++g)
    for (std::int64_t token = 0; token < job.tokens; token += kTokens)
      for (int row = 0; row < kGroup; row += kLanes) {
        F y[kTokens];
        rows_of_group<kFormat, kTokens>(job, job.groups + g * job.group_bytes, row, token / height,
                                        token % height, y);
        store_sums(job, g * kGroup + row, token, kTokens, y);
      }
}

void products(const WeightsJob& job) {
  dispatch_format(job.format, [&]<WeightFormat kFormat>() {
    switch (job.x.height) {
      case 1:
        return groups_of<kFormat, 1>(job);
      case 2:
        return groups_of<kFormat, 2>(job);
      case 4:
        return groups_of<kFormat, 4>(job);
      default:
        return groups_of<kFormat, 8>(job);
    }
  });
}

}  // namespace

const QuantisedKernels& quantised_kernels() {
  static constexpr QuantisedKernels kTable{encode, products};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
