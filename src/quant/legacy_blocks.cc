// Blocks of 32 numbers with one scale, and a minimum in the kinds that end with 1: Q4_0, Q4_1, Q5_0, Q5_1,
// Q8_0.
//
//   Q4_0  half d; 16 bytes                       d (q - 8)
//   Q4_1  half d; half m; 16 bytes               d q + m
//   Q5_0  half d; u32 fifth bits; 16 bytes       d (q - 16)
//   Q5_1  half d; half m; u32; 16 bytes          d q + m
//   Q8_0  half d; 32 signed bytes                d q
//
// Byte j holds number j in its low half and number j + 16 in its high half; bit j of the word is the fifth
// bit of number j.
#include <algorithm>

#include "quant/block_bytes.h"
#include "quant/formats.h"

namespace stoa::quant {
namespace {

constexpr int kNumbers = 32, kHalf = kNumbers / 2;

int nibble(const std::byte* pairs, int i) {
  const int pair = byte_at(pairs, i % kHalf);
  return i < kHalf ? pair & 15 : pair >> 4;
}

int fifth_bit(std::uint32_t bits, int i) { return static_cast<int>((bits >> i) & 1u) << 4; }

void decode_q4_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < kNumbers; ++i) out[i] = static_cast<float>(nibble(block + 2, i) - 8) * d;
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  for (int i = 0; i < kNumbers; ++i) out[i] = static_cast<float>(nibble(block + 4, i)) * d + m;
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  const auto bits = load<std::uint32_t>(block + 2);
  for (int i = 0; i < kNumbers; ++i)
    out[i] = static_cast<float>((nibble(block + 6, i) | fifth_bit(bits, i)) - 16) * d;
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  const auto bits = load<std::uint32_t>(block + 4);
  for (int i = 0; i < kNumbers; ++i)
    out[i] = static_cast<float>(nibble(block + 8, i) | fifth_bit(bits, i)) * d + m;
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < kNumbers; ++i) out[i] = static_cast<float>(load<std::int8_t>(block + 2 + i)) * d;
}

// Codes of 4 or 5 bits: halves of bytes, and the word of fifth bits where there is one.
void store_codes(const int* codes, std::byte* word, std::byte* pairs) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kNumbers; ++i) bits |= static_cast<std::uint32_t>(codes[i] >> 4) << i;
  if (word) store(word, bits);
  for (int i = 0; i < kHalf; ++i)
    pairs[i] = static_cast<std::byte>((codes[i] & 15) | ((codes[i + kHalf] & 15) << 4));
}

// The number with the largest magnitude gets the code 0, whatever its sign: the code range reaches one step
// farther on that side.
void encode_around_zero(const float* x, int zero, std::byte* scale, std::byte* word, std::byte* pairs) {
  const float d = extreme(x, kNumbers) / static_cast<float>(-zero), inverse_d = inverse(d);
  store_half(scale, d);
  int codes[kNumbers];
  for (int i = 0; i < kNumbers; ++i)
    codes[i] =
        std::clamp(static_cast<int>(x[i] * inverse_d + (static_cast<float>(zero) + 0.5f)), 0, 2 * zero - 1);
  store_codes(codes, word, pairs);
}

void encode_with_minimum(const float* x, int largest, std::byte* scale, std::byte* word, std::byte* pairs) {
  const auto [low, high] = std::minmax_element(x, x + kNumbers);
  const float d = (*high - *low) / static_cast<float>(largest), inverse_d = inverse(d);
  store_half(scale, d);
  store_half(scale + 2, *low);
  int codes[kNumbers];
  for (int i = 0; i < kNumbers; ++i)
    codes[i] = std::clamp(static_cast<int>((x[i] - *low) * inverse_d + 0.5f), 0, largest);
  store_codes(codes, word, pairs);
}

void encode_q4_0(const float* x, const float*, std::byte* out) {
  encode_around_zero(x, 8, out, nullptr, out + 2);
}
void encode_q4_1(const float* x, const float*, std::byte* out) {
  encode_with_minimum(x, 15, out, nullptr, out + 4);
}
void encode_q5_0(const float* x, const float*, std::byte* out) {
  encode_around_zero(x, 16, out, out + 2, out + 6);
}
void encode_q5_1(const float* x, const float*, std::byte* out) {
  encode_with_minimum(x, 31, out, out + 4, out + 8);
}

void encode_q8_0(const float* x, const float*, std::byte* out) {
  const float d = std::abs(extreme(x, kNumbers)) / 127, inverse_d = inverse(d);
  store_half(out, d);
  for (int i = 0; i < kNumbers; ++i)  // halves away from zero
    store(out + 2 + i, static_cast<std::int8_t>(std::round(x[i] * inverse_d)));
}

}  // namespace

const BlockFormat kQ4_0Format{BlockType::kQ4_0, "Q4_0", kNumbers, 18, decode_q4_0, encode_q4_0};
const BlockFormat kQ4_1Format{BlockType::kQ4_1, "Q4_1", kNumbers, 20, decode_q4_1, encode_q4_1};
const BlockFormat kQ5_0Format{BlockType::kQ5_0, "Q5_0", kNumbers, 22, decode_q5_0, encode_q5_0};
const BlockFormat kQ5_1Format{BlockType::kQ5_1, "Q5_1", kNumbers, 24, decode_q5_1, encode_q5_1};
const BlockFormat kQ8_0Format{BlockType::kQ8_0, "Q8_0", kNumbers, 34, decode_q8_0, encode_q8_0};

}  // namespace stoa::quant
