// MinHash signatures as NeMo Curator has them (cuDF computes them on a GPU there): MurmurHash3 of every
// 24 characters of the text as it is, each hash under 260 functions h a + b, the minimum of each; documents
// that agree in all hashes of one of 20 bands are near-duplicates.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace stoa::curate {

// Named as NeMo Curator's.
struct NemoMinHashOptions {
  std::int64_t char_ngrams = 24, num_bands = 20, minhashes_per_band = 13, seed = 42;
  bool use_64_bit_hash = false;
};
void declare(config::Section<NemoMinHashOptions>& s);

// The functions h a + b, modulo 2^32, or modulo 2^64 and then 2^61 - 1; the first factor is the hash's seed.
struct NemoHashFunctions {
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> factors, addends;
};
NemoHashFunctions draw_nemo_functions(const NemoMinHashOptions& options);

// Constants and options; shared by all workers.
class NemoMinHash {
 public:
  explicit NemoMinHash(const NemoMinHashOptions& options)
      : NemoMinHash(options, draw_nemo_functions(options)) {}
  NemoMinHash(const NemoMinHashOptions& options, const NemoHashFunctions& functions);
  // The minima. A text of fewer characters is hashed as a whole; those of an empty one are 0.
  void sign(std::string_view text, std::vector<std::uint64_t>& minima) const;
  // A hash of each band of the signature of the text, to the end of `keys`.
  void band_keys(std::string_view text, std::vector<std::uint64_t>& keys) const;

 private:
  template <class Word>
  void sign_as(std::string_view text, const std::vector<Word>& a, const std::vector<Word>& b,
               std::vector<std::uint64_t>& minima) const;

  const NemoMinHashOptions options_;
  const std::uint64_t seed_;
  std::vector<std::uint32_t> a32_, b32_;
  std::vector<std::uint64_t> a64_, b64_;
};

std::uint32_t murmur3_x86_32(std::string_view bytes, std::uint32_t seed);
// The first half of MurmurHash3_x64_128.
std::uint64_t murmur3_x64_64(std::string_view bytes, std::uint64_t seed);

}  // namespace stoa::curate
