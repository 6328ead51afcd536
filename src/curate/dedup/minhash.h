// MinHash signatures equal to those of datatrove 0.10 to the last bit: hashes of five words of simplified
// text, each under 112 functions (h a + b mod 2^64) mod (2^61 - 1) whose constants come from a Mersenne
// twister; documents that agree in all hashes of one of 14 bands are near-duplicates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"
#include "curate/text/english_words.h"
#include "curate/text/simplify.h"

namespace stoa::curate {

struct MinHashOptions {
  std::int64_t n_grams = 5, num_buckets = 14, hashes_per_bucket = 8, seed = 1;
};
void declare(config::Section<MinHashOptions>& s);

// Constants and options; shared by all workers.
class MinHash {
 public:
  explicit MinHash(const MinHashOptions& options);
  const MinHashOptions& options() const { return options_; }
  std::size_t hashes() const { return a_.size(); }
  std::span<const std::uint64_t> factors() const { return a_; }
  std::span<const std::uint64_t> addends() const { return b_; }

 private:
  MinHashOptions options_;
  std::vector<std::uint64_t> a_, b_;
};

// One per worker.
class MinHashSigner {
 public:
  explicit MinHashSigner(const MinHash& hash) : hash_(hash) {}
  // The minima, hashes_per_bucket after hashes_per_bucket; empty for a text of fewer than n_grams words.
  // Valid until the next call.
  std::span<const std::uint64_t> sign(std::string_view text);
  // A hash of each band of the signature of the text, to the end of `keys`.
  void band_keys(std::string_view text, std::vector<std::uint64_t>& keys);

 private:
  const MinHash& hash_;
  Simplifier simplify_;
  EnglishWords words_;
  std::string joined_;                // the words with a blank between two
  std::vector<std::size_t> offsets_;  // of the words in it, and the end
  std::vector<std::uint64_t> minima_;
};

}  // namespace stoa::curate
