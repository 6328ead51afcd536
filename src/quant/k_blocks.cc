// Q2_K, Q3_K, Q6_K and Q8_K: 256 numbers, in the first three in sixteen parts of 16 with a scale each.
//
//   Q2_K  16 bytes of scales; 64 bytes; half d; half dmin    d (sc & 15) q - dmin (sc >> 4), 2 bits
//   Q3_K  32 bytes of third bits; 64 bytes; 12 bytes of scales; half d    d (sc - 32) (q - 4), 3 bits
//   Q6_K  128 bytes; 64 bytes; 16 signed scales; half d      d sc (q - 32), 6 bits
//   Q8_K  float d; 256 signed bytes; 16 sums of 16 (int16)   d q
//
// Two bits of Q2_K and Q3_K: half h of 128 numbers owns 32 bytes; its numbers 32 j .. 32 j + 31 are at bits
// 2 j of these. Third bits: byte l, bit 4 h + j. Scales of Q3_K: four low bits of scale k in byte k & 7 (high
// half from k = 8 on), two high bits in byte 8 + (k & 3) at bit 2 (k / 4). Q6_K: each half of 128 has 64
// bytes of low bits, 32 bytes of high bits and 8 scales; number 32 j + l takes a half of byte l + 32 (j & 1),
// the high one from j = 2 on, and bits 2 j of high byte l.
#include <algorithm>

#include "quant/block_bytes.h"
#include "quant/fit.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

constexpr int kSuper = 256, kSixteen = 16, kScaleCount = kSuper / kSixteen;

// Byte and bit of the two low bits of number i.
struct TwoBits {
  int byte, shift;
};
TwoBits two_bits(int i) { return {i / 128 * 32 + i % 32, i % 128 / 32 * 2}; }

void decode_q2_k(const std::byte* block, float* out) {
  const std::byte* codes = block + 16;
  const float d = load_half(block + 80), dmin = load_half(block + 82);
  for (int i = 0; i < kSuper; ++i) {
    const int sc = byte_at(block, i / kSixteen);
    const float scale = d * static_cast<float>(sc & 15), minimum = dmin * static_cast<float>(sc >> 4);
    const auto [byte, shift] = two_bits(i);
    out[i] = scale * static_cast<float>((byte_at(codes, byte) >> shift) & 3) - minimum;
  }
}

void encode_q2_k(const float* x, const float* importance, std::byte* block) {
  std::byte* codes = block + 16;
  float scales[kScaleCount], minima[kScaleCount], weights[kSixteen];
  const float square = mean_square(x, kSuper);
  for (int k = 0; k < kScaleCount; ++k) {
    const float* part = x + k * kSixteen;
    if (importance)
      weigh(part, importance + k * kSixteen, kSixteen, square, weights);
    else
      for (int i = 0; i < kSixteen; ++i) weights[i] = std::abs(part[i]);
    const Affine fit = fit_affine(part, weights, kSixteen, 3);
    scales[k] = fit.scale, minima[k] = fit.minimum;
  }
  const float d = store_half(block + 80, factor_of(scales, kScaleCount, 15)),
              dmin = store_half(block + 82, factor_of(minima, kScaleCount, 15));
  std::fill_n(codes, 64, std::byte{0});
  for (int k = 0; k < kScaleCount; ++k) {
    const int scale = code_of(scales[k], d, 0, 0, 15), minimum = code_of(minima[k], dmin, 0, 0, 15);
    block[k] = static_cast<std::byte>(scale | minimum << 4);
    for (int i = k * kSixteen; i < (k + 1) * kSixteen; ++i) {
      const int q = code_of(x[i], d * static_cast<float>(scale), dmin * static_cast<float>(minimum), 0, 3);
      const auto [byte, shift] = two_bits(i);
      codes[byte] |= static_cast<std::byte>(q << shift);
    }
  }
}

// Of Q3_K, -32 .. 31.
int third_scale(const std::byte* s, int k) {
  const int low = k < 8 ? byte_at(s, k) & 15 : byte_at(s, k - 8) >> 4;
  return (low | ((byte_at(s, 8 + (k & 3)) >> (2 * (k / 4))) & 3) << 4) - 32;
}

void decode_q3_k(const std::byte* block, float* out) {
  const std::byte *codes = block + 32, *scales = block + 96;
  const float d = load_half(block + 108);
  for (int i = 0; i < kSuper; ++i) {
    const float scale = d * static_cast<float>(third_scale(scales, i / kSixteen));
    const auto [byte, shift] = two_bits(i);
    const int low = (byte_at(codes, byte) >> shift) & 3, high = (byte_at(block, i % 32) >> (i / 32)) & 1;
    out[i] = scale * static_cast<float>(low - (high ? 0 : 4));
  }
}

// Scales of 16 parts as signed codes of [lowest, -lowest - 1] and one factor.
float signed_factor(const float* scales, int lowest, std::byte* half) {
  return store_half(half, extreme(scales, kScaleCount) / static_cast<float>(lowest));
}

void fit_sixteens(const float* x, const float* importance, int lowest, int highest, float* scales) {
  float weights[kSixteen];
  const float square = 2 * mean_square(x, kSuper);
  for (int k = 0; k < kScaleCount; ++k) {
    const float* part = x + k * kSixteen;
    if (importance)
      weigh(part, importance + k * kSixteen, kSixteen, square, weights);
    else
      for (int i = 0; i < kSixteen; ++i) weights[i] = part[i] * part[i];
    scales[k] = fit_scale(part, weights, kSixteen, lowest, highest);
  }
}

void encode_q3_k(const float* x, const float* importance, std::byte* block) {
  std::byte *codes = block + 32, *s = block + 96;
  float scales[kScaleCount];
  fit_sixteens(x, importance, -4, 3, scales);
  const float d = signed_factor(scales, -32, block + 108);
  std::fill_n(block, 108, std::byte{0});
  for (int k = 0; k < kScaleCount; ++k) {
    const int scale = code_of(scales[k], d, 0, -32, 31), code = scale + 32;
    s[k & 7] |= static_cast<std::byte>((code & 15) << (k < 8 ? 0 : 4));
    s[8 + (k & 3)] |= static_cast<std::byte>(code >> 4 << (2 * (k / 4)));
    for (int i = k * kSixteen; i < (k + 1) * kSixteen; ++i) {
      const int q = code_of(x[i], d * static_cast<float>(scale), 0, -4, 3) + 4;
      const auto [byte, shift] = two_bits(i);
      codes[byte] |= static_cast<std::byte>((q & 3) << shift);
      block[i % 32] |= static_cast<std::byte>(q >> 2 << (i / 32));
    }
  }
}

// Where the bits of number i of Q6_K are.
struct SixBits {
  int low_byte, low_shift, high_byte, high_shift;
};
SixBits six_bits(int i) {
  const int half = i / 128, j = i % 128 / 32, l = i % 32;
  return {half * 64 + l + 32 * (j & 1), 4 * (j / 2), half * 32 + l, 2 * j};
}

void decode_q6_k(const std::byte* block, float* out) {
  const std::byte *high = block + 128, *scales = block + 192;
  const float d = load_half(block + 208);
  for (int i = 0; i < kSuper; ++i) {
    const SixBits at = six_bits(i);
    const int q = ((byte_at(block, at.low_byte) >> at.low_shift) & 15) |
                  ((byte_at(high, at.high_byte) >> at.high_shift) & 3) << 4;
    const float scale = d * static_cast<float>(load<std::int8_t>(scales + i / kSixteen));
    out[i] = scale * static_cast<float>(q - 32);
  }
}

void encode_q6_k(const float* x, const float* importance, std::byte* block) {
  std::byte *high = block + 128, *s = block + 192;
  float scales[kScaleCount];
  fit_sixteens(x, importance, -32, 31, scales);
  const float d = signed_factor(scales, -128, block + 208);
  std::fill_n(block, 208, std::byte{0});
  for (int k = 0; k < kScaleCount; ++k) {
    const int scale = code_of(scales[k], d, 0, -128, 127);
    store(s + k, static_cast<std::int8_t>(scale));
    for (int i = k * kSixteen; i < (k + 1) * kSixteen; ++i) {
      const int q = code_of(x[i], d * static_cast<float>(scale), 0, -32, 31) + 32;
      const SixBits at = six_bits(i);
      block[at.low_byte] |= static_cast<std::byte>((q & 15) << at.low_shift);
      high[at.high_byte] |= static_cast<std::byte>(q >> 4 << at.high_shift);
    }
  }
}

void decode_q8_k(const std::byte* block, float* out) {
  const auto d = load<float>(block);
  for (int i = 0; i < kSuper; ++i) out[i] = d * static_cast<float>(load<std::int8_t>(block + 4 + i));
}

}  // namespace

const BlockFormat kQ2_KFormat{BlockType::kQ2_K, "Q2_K", kSuper, 84, decode_q2_k, encode_q2_k};
const BlockFormat kQ3_KFormat{BlockType::kQ3_K, "Q3_K", kSuper, 110, decode_q3_k, encode_q3_k};
const BlockFormat kQ6_KFormat{BlockType::kQ6_K, "Q6_K", kSuper, 210, decode_q6_k, encode_q6_k};
const BlockFormat kQ8_KFormat{BlockType::kQ8_K, "Q8_K", kSuper, 292, decode_q8_k, nullptr};

}  // namespace stoa::quant
