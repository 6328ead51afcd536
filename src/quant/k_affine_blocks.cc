// Q4_K and Q5_K: 256 numbers in eight parts of 32, each with a scale and a minimum of 6 bits.
//
//   Q4_K  half d; half dmin; 12 bytes of scales; 128 bytes          d sc q - dmin m
//   Q5_K  half d; half dmin; 12 bytes; 32 bytes fifth bits; 128     likewise
//
// 32 bytes hold two parts: part 2c in the low halves, part 2c + 1 in the high ones. Byte l of the fifth bits
// has that of number l of part p at bit p. The 12 bytes: part_scale() in block_bytes.h.
#include <algorithm>

#include "quant/block_bytes.h"
#include "quant/fit.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

constexpr int kParts = 8, kPart = 32, kSixBits = 63, kScales = 4, kAfterScales = kScales + 12;

void store_part_scales(const PartScale* parts, std::byte* s) {
  int bytes[12] = {};
  for (int j = 0; j < 4; ++j) {
    bytes[j] = parts[j].scale | (parts[j + 4].scale >> 4) << 6;
    bytes[j + 4] = parts[j].minimum | (parts[j + 4].minimum >> 4) << 6;
    bytes[j + 8] = (parts[j + 4].scale & 15) | (parts[j + 4].minimum & 15) << 4;
  }
  for (int i = 0; i < 12; ++i) s[i] = static_cast<std::byte>(bytes[i]);
}

// `fifth`: of Q5_K, or null.
void decode_parts(const std::byte* block, const std::byte* fifth, const std::byte* pairs, float* out) {
  const float d = load_half(block), dmin = load_half(block + 2);
  for (int p = 0; p < kParts; ++p) {
    const auto [sc, m] = part_scale(block + kScales, p);
    const float scale = d * static_cast<float>(sc), minimum = dmin * static_cast<float>(m);
    for (int l = 0; l < kPart; ++l) {
      const int pair = byte_at(pairs, p / 2 * kPart + l);
      int q = p % 2 == 0 ? pair & 15 : pair >> 4;
      if (fifth) q |= ((byte_at(fifth, l) >> p) & 1) << 4;
      out[p * kPart + l] = scale * static_cast<float>(q) - minimum;
    }
  }
}

void encode_parts(const float* x, const float* importance, int highest, std::byte* block, std::byte* fifth,
                  std::byte* pairs) {
  float scales[kParts], minima[kParts], weights[kPart];
  const float square = 2 * mean_square(x, kParts * kPart);
  for (int p = 0; p < kParts; ++p) {
    const float* part = x + p * kPart;
    weigh(part, importance ? importance + p * kPart : nullptr, kPart,
          importance ? square : mean_square(part, kPart), weights);
    const Affine fit = fit_affine(part, weights, kPart, highest);
    scales[p] = fit.scale, minima[p] = fit.minimum;
  }
  const float d = store_half(block, factor_of(scales, kParts, kSixBits)),
              dmin = store_half(block + 2, factor_of(minima, kParts, kSixBits));
  PartScale codes[kParts];
  for (int p = 0; p < kParts; ++p)
    codes[p] = {code_of(scales[p], d, 0, 0, kSixBits), code_of(minima[p], dmin, 0, 0, kSixBits)};
  store_part_scales(codes, block + kScales);
  std::fill_n(pairs, kParts / 2 * kPart, std::byte{0});
  if (fifth) std::fill_n(fifth, kPart, std::byte{0});
  for (int p = 0; p < kParts; ++p)
    for (int l = 0; l < kPart; ++l) {
      const int q = code_of(x[p * kPart + l], d * static_cast<float>(codes[p].scale),
                            dmin * static_cast<float>(codes[p].minimum), 0, highest);
      pairs[p / 2 * kPart + l] |= static_cast<std::byte>((q & 15) << (p % 2 * 4));
      if (fifth) fifth[l] |= static_cast<std::byte>(q >> 4 << p);
    }
}

void decode_q4_k(const std::byte* block, float* out) {
  decode_parts(block, nullptr, block + kAfterScales, out);
}
void encode_q4_k(const float* x, const float* importance, std::byte* block) {
  encode_parts(x, importance, 15, block, nullptr, block + kAfterScales);
}
void decode_q5_k(const std::byte* block, float* out) {
  decode_parts(block, block + kAfterScales, block + kAfterScales + kPart, out);
}
void encode_q5_k(const float* x, const float* importance, std::byte* block) {
  encode_parts(x, importance, 31, block, block + kAfterScales, block + kAfterScales + kPart);
}

}  // namespace

const BlockFormat kQ4_KFormat{BlockType::kQ4_K, "Q4_K", kParts* kPart, 144, decode_q4_k, encode_q4_k};
const BlockFormat kQ5_KFormat{BlockType::kQ5_K, "Q5_K", kParts* kPart, 176, decode_q5_k, encode_q5_k};

}  // namespace stoa::quant
