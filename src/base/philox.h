// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11). Every draw is a function of (seed, purpose, name, element), so it does not depend on layout,
// schedule or threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stoa {

struct PhiloxKey {
  std::uint32_t lo = 0, hi = 0;
};

// Purposes keep the streams of one seed independent.
enum class RandomPurpose : std::uint32_t {
  kInit = 1,
  kHiddenDropout,
  kAttentionDropout,
  kEmbeddingDropout,
  kSampling,
  kTest
};

// Key of the stream for a purpose and the name of a parameter or layer.
PhiloxKey philox_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name);

// Ten rounds on a 128-bit counter: four independent 32-bit words.
inline std::array<std::uint32_t, 4> philox4x32(PhiloxKey key, std::array<std::uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key.lo, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key.hi, static_cast<std::uint32_t>(p0)};
    key.lo += 0x9E3779B9u;
    key.hi += 0xBB67AE85u;
  }
  return counter;
}

// Word number `index` of the stream: block index/4 of the 64-bit counter, word index%4.
inline std::uint32_t philox_word(PhiloxKey key, std::uint64_t index) {
  const std::uint64_t block = index >> 2;
  return philox4x32(
      key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0})[index & 3];
}

// Uniform in [0, 1) with 24 bits.
inline float uniform_from_word(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Standard normal number `index` of the stream: Box-Muller on words 2*index and 2*index+1, in double, with
// logarithm and cosine by polynomials of basic operations, so that it has the same bits on every machine.
double philox_normal(PhiloxKey key, std::uint64_t index);
// Numbers [first, first + count) of the stream; the same bits, many at a time.
void philox_normals(PhiloxKey key, std::uint64_t first, std::int64_t count, double* out);

}  // namespace stoa
