// How a token is drawn from logits: one procedure with the same result on host and device, to the bit.
// Weights of tokens are whole numbers, made by additions, products and shifts of whole numbers, so that no
// order of their sums shows. Kernel files include this.
#pragma once

#include <cstdint>

#include "ops/schedule_formulas.h"

namespace stoa::ops {

// What is drawn. Tokens are in the order of their logits, of equal ones the lower id first, without NaN and
// -infinity, and without those whose logits are above that of the token of MostLikely, which it misses only
// where NaN is near. The first `top_k` are kept, of these the fewest whose weights sum up to `top_p`, and of
// these the ones that are not farther than `farthest`. `word` decides which of what is left is drawn, in
// their order and by their weights.
struct TokenDraw {
  std::int32_t row = 0;    // of the logits
  float cut_scale = 0;     // kOctave log2(e) / temperature of the weights that top_p and `farthest` are about
  float draw_scale = 0;    // the same of the weights by which a token is drawn
  std::int32_t top_k = 0;  // 0: all
  std::uint32_t top_p = 0;  // in units of 2^-32; 0: all
  std::uint32_t farthest = 0xffffffffU;
  std::uint32_t near_first = 0;  // 1: what is farther than `farthest` does not count for top_k and top_p
  std::uint32_t word = 0;        // a random number
};
inline constexpr int kTokenDrawWords = 8;
static_assert(sizeof(TokenDraw) == 4 * kTokenDrawWords);

// The distance of a token: how many octaves its weight is below that of the most likely token.
inline constexpr int kOctaveBits = 26;
inline constexpr float kOctave = 67108864.0F;           // 2^26: an octave
inline constexpr std::uint32_t kNoToken = 0xffffffffU;  // more than any distance: weighs nothing

// NaN compares as false.
STOA_HOST_DEVICE inline std::uint32_t token_distance(float highest, float logit, float scale) {
  if (!(logit >= -3.402823466e38F)) return kNoToken;
  const float distance = (highest - logit) * scale;
  return distance >= 0 && distance < 4294967296.0F ? static_cast<std::uint32_t>(distance) : kNoToken;
}

STOA_HOST_DEVICE inline std::uint32_t high_product(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}

// 2^31 times 2^-f for a distance of f octaves, a fraction: a polynomial with a relative error below 2^-28
// that falls with f.
STOA_HOST_DEVICE inline std::uint32_t octave_weight(std::uint32_t fraction) {
  const std::uint32_t f = fraction << (32 - kOctaveBits);
  std::uint32_t sum = 0x71d97U;
  sum = 0x5375b2U - high_product(f, sum);
  sum = 0x273b221U - high_product(f, sum);
  sum = 0xe349a26U - high_product(f, sum);
  sum = 0x3d7f5601U - high_product(f, sum);
  sum = 0xb17215e1U - high_product(f, sum);
  return 0x80000000U - (high_product(f, sum) >> 1);
}

// The most likely token weighs 2^bits, such that the sum over all ids is below 2^63.
STOA_HOST_DEVICE inline int weight_bits(std::int64_t ids) {
  int bits = 62;
  for (std::int64_t i = ids; i > 1; i = (i + 1) / 2) --bits;
  return bits;
}
STOA_HOST_DEVICE inline std::uint64_t token_weight(std::uint32_t distance, int bits) {
  if (distance == kNoToken) return 0;
  const std::uint64_t weight = octave_weight(distance & ((1U << kOctaveBits) - 1));
  return weight << (bits - 31) >> (distance >> kOctaveBits);
}

// The part part / 2^32 of a sum, rounded down.
STOA_HOST_DEVICE inline std::uint64_t part_of_sum(std::uint64_t sum, std::uint32_t part) {
  return (sum >> 32) * part + ((sum & 0xffffffffU) * part >> 32);
}
// The same, rounded up.
STOA_HOST_DEVICE inline std::uint64_t least_of_sum(std::uint64_t sum, std::uint32_t part) {
  return part_of_sum(sum, part) + (((sum & 0xffffffffU) * part & 0xffffffffU) != 0 ? 1 : 0);
}

}  // namespace stoa::ops
