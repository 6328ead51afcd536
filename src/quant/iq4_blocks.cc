// IQ4_NL and IQ4_XS: codes of 4 bits that stand for 16 values which lie closer together near zero.
//
//   IQ4_NL  half d; 16 bytes                              32 numbers: d T[q]
//   IQ4_XS  half d; u16 high; 4 bytes low; 128 bytes      256 numbers in eight parts of 32: d (ls - 32) T[q]
//
// Halves of bytes as in Q4_0, 16 bytes for each part. ls of part j: four bits of low (byte j / 2, the high
// half for odd j), two of high (bits 2 j).
#include <algorithm>
#include <array>

#include "quant/block_bytes.h"
#include "quant/code_values.h"
#include "quant/fit.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

constexpr int kPartNumbers = 32, kPartCount = 8;

void decode_uneven(float scale, const std::byte* pairs, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(kUnevenValues[static_cast<std::size_t>(byte_at(pairs, i) & 15)]);
    out[i + 16] = scale * static_cast<float>(kUnevenValues[static_cast<std::size_t>(byte_at(pairs, i) >> 4)]);
  }
}

// Half way between neighbours of the table.
constexpr auto kUnevenMiddles = [] {
  std::array<float, kUnevenValues.size() - 1> middles{};
  for (std::size_t i = 0; i < middles.size(); ++i)
    middles[i] = 0.5f * static_cast<float>(kUnevenValues[i] + kUnevenValues[i + 1]);
  return middles;
}();

// Counts the middles below x: a search would take branches that cannot be predicted. A tie gives the lower
// code.
int nearest_uneven(float x) {
  int code = 0;
  for (const float middle : kUnevenMiddles) code += x > middle;
  return code;
}

int uneven_code(float x, float scale) { return nearest_uneven(scale == 0 ? 0 : x / scale); }

// The scale of a part with the smallest weighted error.
float fit_uneven(const float* x, const float* weights) {
  const float far = extreme(x, kPartNumbers);
  if (far == 0) return 0;
  float best = 0;
  double best_gain = -1;
  for (int sign = 0; sign < 2; ++sign)
    for (int step = -7; step <= 7; ++step) {
      // The far end of the table, or the near one.
      const float start =
          far / (static_cast<float>(kUnevenValues[sign == 0 ? 0 : 15]) + static_cast<float>(step));
      double products = 0, squares = 0;
      for (int i = 0; i < kPartNumbers; ++i) {
        const double value = kUnevenValues[static_cast<std::size_t>(uneven_code(x[i], start))],
                     w = weights[i];
        products += w * value * x[i];
        squares += w * value * value;
      }
      if (squares > 0 && products * products / squares > best_gain) {
        best_gain = products * products / squares;
        best = static_cast<float>(products / squares);
      }
    }
  return best;
}

void weigh_part(const float* x, const float* importance, float square, float* weights) {
  if (importance)
    weigh(x, importance, kPartNumbers, square, weights);
  else
    for (int i = 0; i < kPartNumbers; ++i) weights[i] = x[i] * x[i];
}

void store_uneven(const float* x, float scale, std::byte* pairs) {
  for (int i = 0; i < 16; ++i)
    pairs[i] = static_cast<std::byte>(uneven_code(x[i], scale) | uneven_code(x[i + 16], scale) << 4);
}

void decode_iq4_nl(const std::byte* block, float* out) { decode_uneven(load_half(block), block + 2, out); }

void encode_iq4_nl(const float* x, const float* importance, std::byte* block) {
  float weights[kPartNumbers];
  weigh_part(x, importance, 2 * mean_square(x, kPartNumbers), weights);
  const float d = store_half(block, fit_uneven(x, weights));
  store_uneven(x, d, block + 2);
}

void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = load_half(block);
  const int high = load<std::uint16_t>(block + 2);
  for (int j = 0; j < kPartCount; ++j) {
    decode_uneven(d * static_cast<float>(uneven_part_scale(load<std::uint32_t>(block + 4), high, j)),
                  block + 8 + j * 16, out + j * kPartNumbers);
  }
}

void encode_iq4_xs(const float* x, const float* importance, std::byte* block) {
  float weights[kPartNumbers], scales[kPartCount];
  const float square = 2 * mean_square(x, kPartCount * kPartNumbers);
  for (int j = 0; j < kPartCount; ++j) {
    weigh_part(x + j * kPartNumbers, importance ? importance + j * kPartNumbers : nullptr, square, weights);
    scales[j] = fit_uneven(x + j * kPartNumbers, weights);
  }
  const float d = store_half(block, extreme(scales, kPartCount) / -32.0f);
  std::fill_n(block + 4, 4, std::byte{0});
  int high = 0;
  for (int j = 0; j < kPartCount; ++j) {
    const int scale = code_of(scales[j], d, 0, -32, 31), ls = scale + 32;
    block[4 + j / 2] |= static_cast<std::byte>((ls & 15) << (4 * (j & 1)));
    high |= ls >> 4 << (2 * j);
    store_uneven(x + j * kPartNumbers, d * static_cast<float>(scale), block + 8 + j * 16);
  }
  store(block + 2, static_cast<std::uint16_t>(high));
}

}  // namespace

const BlockFormat kIQ4_NLFormat{BlockType::kIQ4_NL, "IQ4_NL", kPartNumbers, 18, decode_iq4_nl, encode_iq4_nl};
const BlockFormat kIQ4_XSFormat{BlockType::kIQ4_XS, "IQ4_XS",     kPartCount* kPartNumbers, 136,
                                decode_iq4_xs,      encode_iq4_xs};

}  // namespace stoa::quant
