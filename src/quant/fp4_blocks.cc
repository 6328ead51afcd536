// MXFP4 and NVFP4: codes of E2M1 (sign, two bits of exponent, one of mantissa) with a shared scale.
//
//   MXFP4  byte e; 16 bytes             32 numbers: 2^(e - 127) E[q]; halves of bytes as in Q4_0
//   NVFP4  4 bytes of scales; 32 bytes  64 numbers in four parts of 16: s E[q], s of E4M3 without a sign
//
// A part of NVFP4 has 8 bytes: byte j holds number j in its low half and number j + 8 in its high half. Its
// scale 0x7f stands for 0. What a tensor of NVFP4 is multiplied by is a tensor of its own ("NAME.scale").
#include <algorithm>
#include <array>
#include <cmath>

#include "base/fp8.h"
#include "quant/block_bytes.h"
#include "quant/code_values.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

// Halfway between two values is the one nearer to 0.
int nearest_e2m1(float twice) {
  constexpr std::array<float, 7> kHalfway{0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
  int code = 0;
  for (const float halfway : kHalfway) code += std::abs(twice) > halfway ? 1 : 0;
  return twice < 0 && code > 0 ? code + 8 : code;
}

void decode_mxfp4(const std::byte* block, float* out) {
  const float d = half_power(byte_at(block, 0));
  for (int i = 0; i < 16; ++i) {
    const auto pair = static_cast<std::size_t>(byte_at(block, 1 + i));
    out[i] = d * static_cast<float>(kTwiceE2M1[pair & 15]);
    out[i + 16] = d * static_cast<float>(kTwiceE2M1[pair >> 4]);
  }
}

void encode_mxfp4(const float* x, const float*, std::byte* block) {
  const float far = std::abs(extreme(x, 32));
  const int e = far == 0 ? 0 : std::clamp(static_cast<int>(std::floor(std::log2(far))) - 2 + 127, 0, 254);
  const float d = half_power(e);
  block[0] = static_cast<std::byte>(e);
  for (int i = 0; i < 16; ++i)
    block[1 + i] = static_cast<std::byte>(nearest_e2m1(x[i] / d) | nearest_e2m1(x[i + 16] / d) << 4);
}

float scale_of_part(std::byte code) {
  const auto bits = static_cast<std::uint8_t>(std::to_integer<int>(code) & 0x7f);
  if (bits == 0x7f) return 0;
  e4m3 scale;
  scale.bits = bits;
  return static_cast<float>(scale) * 0.5f;
}

void decode_nvfp4(const std::byte* block, float* out) {
  for (int part = 0; part < 4; ++part) {
    const float d = scale_of_part(block[part]);
    for (int j = 0; j < 8; ++j) {
      const auto pair = static_cast<std::size_t>(byte_at(block, 4 + part * 8 + j));
      out[part * 16 + j] = d * static_cast<float>(kTwiceE2M1[pair & 15]);
      out[part * 16 + j + 8] = d * static_cast<float>(kTwiceE2M1[pair >> 4]);
    }
  }
}

}  // namespace

const BlockFormat kMXFP4Format{BlockType::kMXFP4, "MXFP4", 32, 17, decode_mxfp4, encode_mxfp4};
const BlockFormat kNVFP4Format{BlockType::kNVFP4, "NVFP4", 64, 36, decode_nvfp4, nullptr};

}  // namespace stoa::quant
