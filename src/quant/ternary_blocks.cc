// TQ1_0 and TQ2_0: 256 numbers of -d, 0, d.
//
//   TQ1_0  48 bytes of five digits each; 4 bytes of four; half d
//   TQ2_0  64 bytes of four digits each; half d
//
// TQ2_0: half h of 128 numbers owns 32 bytes; its numbers 32 j .. 32 j + 31 are at bits 2 j. TQ1_0: a byte b
// stands for the fraction b / 256 in base 3; digit j is the first after multiplying by 3^j modulo 256. 32
// bytes hold numbers 0 .. 159 (number 32 j + l is digit j of byte l), 16 bytes the next 80 alike, 4 bytes the
// last 16 (number 4 j + l).
#include "quant/block_bytes.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

int base_three_digit(int byte, int digit) {
  constexpr int kPowers[5] = {1, 3, 9, 27, 81};
  return ((byte * kPowers[digit]) & 255) * 3 >> 8;
}

void decode_tq1_0(const std::byte* block, float* out) {
  struct Run {
    int first_byte, bytes, digits;
  };
  constexpr Run kRuns[3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  const float d = load_half(block + 52);
  for (const auto& [first, bytes, digits] : kRuns)
    for (int j = 0; j < digits; ++j)
      for (int l = 0; l < bytes; ++l)
        *out++ = d * static_cast<float>(base_three_digit(byte_at(block, first + l), j) - 1);
}

void decode_tq2_0(const std::byte* block, float* out) {
  const float d = load_half(block + 64);
  for (int i = 0; i < 256; ++i) {
    const int q = (byte_at(block, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2)) & 3;
    out[i] = d * static_cast<float>(q - 1);
  }
}

}  // namespace

const BlockFormat kTQ1_0Format{BlockType::kTQ1_0, "TQ1_0", 256, 54, decode_tq1_0, nullptr};
const BlockFormat kTQ2_0Format{BlockType::kTQ2_0, "TQ2_0", 256, 66, decode_tq2_0, nullptr};

}  // namespace stoa::quant
