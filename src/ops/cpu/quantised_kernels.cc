#include "ops/cpu/quantised_kernels.h"

#include <cmath>
#include <cstring>

#include "ops/cpu/simd.h"

// Processors with bf16 products have dot products of bytes, too.
#if STOA_ISA_LEVEL >= 3
#define STOA_BYTE_DOTS __attribute__((target("avx512vnni")))
#else
#define STOA_BYTE_DOTS
#endif

namespace stoa::ops::cpu::STOA_ISA {
namespace {

constexpr int kQuadBytes = 64;

float from_half(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u,
                      mantissa = bits & 1023u;
  float value;
  std::uint32_t wide = sign | (exponent + 112u) << 23 | mantissa << 13;
  if (exponent == 0) {
    value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  if (exponent == 31) wide = sign | 0x7f800000u | mantissa << 13;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Sixteen floats in as many vectors as it takes.
struct Sixteen {
  float at[kPanelRows];
};

void load_halves(const std::uint8_t* from, Sixteen& out) {
#if STOA_ISA_LEVEL >= 2
  _mm512_storeu_ps(out.at, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif STOA_ISA_LEVEL == 1
  for (int i = 0; i < kPanelRows; i += 8)
    _mm256_storeu_ps(out.at + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
#else
  for (int i = 0; i < kPanelRows; ++i) out.at[i] = from_half(from + 2 * i);
#endif
}

// Codes of a group as bytes, quad by quad.
template <int kBits>
STOA_INLINE void unpack(const std::uint8_t* codes, std::uint8_t* out) {
  if constexpr (kBits == 8) {
    std::memcpy(out, codes, kQuads * kQuadBytes);
    return;
  }
#if STOA_ISA_LEVEL >= 2
  const __m512i low = _mm512_set1_epi8(15);
  const std::uint8_t* planes = codes + 4 * kQuadBytes;
  for (int j = 0; j < 4; ++j) {
    const __m512i pair = _mm512_loadu_si512(codes + j * kQuadBytes);
    __m512i both[2] = {_mm512_and_si512(pair, low), _mm512_and_si512(_mm512_srli_epi16(pair, 4), low)};
    for (int h = 0; h < 2; ++h) {
      const int quad = j + 4 * h;
      for (int plane = 0; plane < kBits - 4; ++plane) {
        std::uint64_t bits;
        std::memcpy(&bits, planes + plane * kQuadBytes + quad * 8, sizeof bits);
        both[h] = _mm512_or_si512(
            both[h], _mm512_maskz_set1_epi8(static_cast<__mmask64>(bits), static_cast<char>(16 << plane)));
      }
      _mm512_storeu_si512(out + quad * kQuadBytes, both[h]);
    }
  }
#else
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < kQuadBytes; ++i) {
      out[j * kQuadBytes + i] = codes[j * kQuadBytes + i] & 15;
      out[(j + 4) * kQuadBytes + i] = codes[j * kQuadBytes + i] >> 4;
    }
  for (int plane = 0; plane < kBits - 4; ++plane)
    for (int i = 0; i < kQuads * kQuadBytes; ++i) {
      const int bit = (codes[(4 + plane) * kQuadBytes + i / 8] >> (i % 8)) & 1;
      out[i] = static_cast<std::uint8_t>(out[i] | bit << (4 + plane));
    }
#endif
}

// dots[r] = sum over quads [first, first + count) of the unpacked codes of output r with the input's.
template <int kBits, int kCount>
STOA_INLINE STOA_BYTE_DOTS void dot(const std::uint8_t* unpacked, const std::int8_t* input, std::int32_t* dots) {
#if STOA_ISA_LEVEL >= 2
  __m512i sum = _mm512_setzero_si512();
  for (int j = 0; j < kCount; ++j) {
    std::int32_t four;
    std::memcpy(&four, input + 4 * j, sizeof four);
    const __m512i w = _mm512_loadu_si512(unpacked + j * kQuadBytes), x = _mm512_set1_epi32(four);
#if STOA_ISA_LEVEL >= 3
    sum = _mm512_dpbusd_epi32(sum, w, x);
#else
    const __m512i ones = _mm512_set1_epi16(1);
    if constexpr (kBits < 8) {  // two products of 63 and 127 stay within 16 bits
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(w, x), ones));
    } else {
      const __m512i even = _mm512_and_si512(w, _mm512_set1_epi16(255)), odd = _mm512_srli_epi16(w, 8);
      const __m512i x_even = _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), x_odd = _mm512_srai_epi16(x, 8);
      sum = _mm512_add_epi32(sum, _mm512_add_epi32(_mm512_madd_epi16(even, x_even), _mm512_madd_epi16(odd, x_odd)));
    }
#endif
  }
  _mm512_storeu_si512(dots, sum);
#else
  for (int r = 0; r < kPanelRows; ++r) dots[r] = 0;
  for (int j = 0; j < kCount; ++j)
    for (int r = 0; r < kPanelRows; ++r)
      for (int i = 0; i < 4; ++i)
        dots[r] += static_cast<std::int32_t>(unpacked[j * kQuadBytes + 4 * r + i]) * input[4 * j + i];
#endif
}

// sums += scale x (input's scale x dots) - offset x (input's sum).
STOA_INLINE void add_group(float* sums, const Sixteen& scale, const Sixteen& offset, const std::int32_t* dots,
                           float input_scale, float input_sum) {
#if STOA_ISA_LEVEL >= 2
  const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(dots)), _mm512_set1_ps(input_scale));
  const __m512 added = _mm512_fmadd_ps(_mm512_loadu_ps(scale.at), product, _mm512_loadu_ps(sums));
  _mm512_storeu_ps(sums, _mm512_fnmadd_ps(_mm512_loadu_ps(offset.at), _mm512_set1_ps(input_sum), added));
#else
  for (int r = 0; r < kPanelRows; ++r)
    sums[r] += scale.at[r] * (input_scale * static_cast<float>(dots[r])) - offset.at[r] * input_sum;
#endif
}

template <int kBits>
STOA_INLINE STOA_BYTE_DOTS void panel_product(const QuantisedJob& job, const std::uint8_t* panel, float (*sums)[kPanelRows]) {
  const PackedLayout& l = job.layout;
  const std::int64_t groups = job.inputs / kGroupInputs;
  alignas(64) std::uint8_t unpacked[kQuads * kQuadBytes];
  alignas(64) std::int32_t dots[kPanelRows];
  for (std::int64_t first = 0; first < groups; first += l.groups, panel += l.super_bytes()) {
    Sixteen d, m;
    load_halves(panel, d);
    if (l.minimum) load_halves(panel + 2 * kPanelRows, m);
    const std::uint8_t* group = panel + 2 * kPanelRows * (l.minimum ? 2 : 1);
    for (std::int64_t g = first; g < first + l.groups; ++g, group += l.group_bytes()) {
      Sixteen scale[2], offset[2];
      const std::uint8_t* codes = group;
      const int parts = l.halves ? 2 : 1;
      for (int h = 0; h < parts; ++h) {
        for (int r = 0; r < kPanelRows; ++r)
          scale[h].at[r] = !l.two_level ? d.at[r]
                           : l.halves   ? d.at[r] * static_cast<float>(static_cast<std::int8_t>(codes[r]))
                                        : d.at[r] * static_cast<float>(codes[r]);
        if (l.two_level) codes += kPanelRows;
      }
      for (int h = 0; h < parts; ++h)
        for (int r = 0; r < kPanelRows; ++r)
          offset[h].at[r] = !l.minimum    ? scale[h].at[r] * l.zero
                            : l.two_level ? m.at[r] * static_cast<float>(codes[r])
                                          : m.at[r];
      if (l.two_level && l.minimum) codes += kPanelRows;
      unpack<kBits>(codes, unpacked);
      for (int row = 0; row < job.rows; ++row) {
        const std::int8_t* input = job.codes + row * job.inputs + g * kGroupInputs;
        const float input_scale = job.scales[row * groups + g];
        const float* input_sums = job.sums + (row * groups + g) * 2;
        if (!l.halves) {
          dot<kBits, kQuads>(unpacked, input, dots);
          add_group(sums[row], scale[0], offset[0], dots, input_scale, input_sums[0] + input_sums[1]);
          continue;
        }
        for (int h = 0; h < 2; ++h) {
          dot<kBits, kQuads / 2>(unpacked + h * 4 * kQuadBytes, input + 16 * h, dots);
          add_group(sums[row], scale[h], offset[h], dots, input_scale, input_sums[h]);
        }
      }
    }
  }
}

template <int kBits>
STOA_BYTE_DOTS void panels_product(const QuantisedJob& job) {
  const std::int64_t bytes = job.inputs / kGroupInputs / job.layout.groups * job.layout.super_bytes();
  alignas(64) float sums[kQuantisedRows][kPanelRows];
  for (std::int64_t p = 0; p < job.panel_count; ++p) {
    for (int row = 0; row < job.rows; ++row) std::memset(sums[row], 0, sizeof sums[row]);
    panel_product<kBits>(job, job.panels + p * bytes, sums);
    for (int row = 0; row < job.rows; ++row)
      std::memcpy(job.out + row * job.out_stride + p * kPanelRows, sums[row], sizeof sums[row]);
  }
}

void product(const QuantisedJob& job) {
  switch (job.layout.bits) {
    case 4:
      return panels_product<4>(job);
    case 5:
      return panels_product<5>(job);
    case 6:
      return panels_product<6>(job);
    default:
      return panels_product<8>(job);
  }
}

void quantise(const float* x, std::int64_t count, std::int8_t* codes, float* scales, float* sums) {
  for (std::int64_t g = 0; g < count / kGroupInputs; ++g, x += kGroupInputs, codes += kGroupInputs) {
    float most = 0;
    for (int i = 0; i < kGroupInputs; ++i) most = std::fmax(most, std::fabs(x[i]));
    const float scale = most / 127, inverse = most == 0 ? 0 : 127 / most;
    scales[g] = scale;
    for (int h = 0; h < 2; ++h) {
      std::int32_t sum = 0;
      for (int i = 16 * h; i < 16 * (h + 1); ++i) {
        const auto q = static_cast<std::int32_t>(std::nearbyint(x[i] * inverse));
        codes[i] = static_cast<std::int8_t>(q);
        sum += q;
      }
      sums[2 * g + h] = scale * static_cast<float>(sum);
    }
  }
}

}  // namespace

const QuantisedKernels& quantised_kernels() {
  static constexpr QuantisedKernels kKernels{product, quantise};
  return kKernels;
}

}  // namespace stoa::ops::cpu::STOA_ISA
