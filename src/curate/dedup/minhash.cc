#include "curate/dedup/minhash.h"

#include <xxhash.h>

#include <limits>
#include <random>

#include "curate/dedup/hash_functions.h"

namespace stoa::curate {

void declare(config::Section<MinHashOptions>& s) {
  s.field("n_grams", &MinHashOptions::n_grams)
      .range(1, 100)
      .unit("words")
      .help("Length of the sequences that are compared.");
  s.field("num_buckets", &MinHashOptions::num_buckets)
      .range(1, 1000)
      .help("Bands: documents that agree in one of them are near-duplicates.");
  s.field("hashes_per_bucket", &MinHashOptions::hashes_per_bucket)
      .range(1, 1000)
      .help("Hashes per band: more find closer copies only.");
  s.field("seed", &MinHashOptions::seed).range(0, 4294967295).help("Seed of the hash functions.");
}

MinHash::MinHash(const MinHashOptions& options) : options_(options) {
  std::mt19937 random(static_cast<std::uint32_t>(options.seed));
  const auto count = static_cast<std::size_t>(options.num_buckets * options.hashes_per_bucket);
  for (std::size_t i = 0; i < count; ++i) a_.push_back(draw_below(random, 1, kPrime61, true));
  for (std::size_t i = 0; i < count; ++i) b_.push_back(draw_below(random, 0, kPrime61, true));
}

std::span<const std::uint64_t> MinHashSigner::sign(std::string_view text) {
  static const auto lower = choose_lower_minima<std::uint64_t>();
  const auto words = words_.split(simplify_(text));
  const auto n = static_cast<std::size_t>(hash_.options().n_grams);
  if (words.size() < n) return {};
  joined_.clear();
  offsets_.clear();
  for (const Word& word : words) {
    offsets_.push_back(joined_.size());
    joined_ += word.text();
    joined_ += ' ';
  }
  offsets_.push_back(joined_.size());
  minima_.assign(hash_.hashes(), std::numeric_limits<std::uint64_t>::max());
  for (std::size_t i = 0; i + n <= words.size(); ++i)
    lower(hash_.factors().data(), hash_.addends().data(), hash_.hashes(),
          XXH64(joined_.data() + offsets_[i], offsets_[i + n] - 1 - offsets_[i], 0), minima_.data());
  return minima_;
}

void MinHashSigner::band_keys(std::string_view text, std::vector<std::uint64_t>& keys) {
  append_band_keys(sign(text), hash_.options().hashes_per_bucket, keys);
}

}  // namespace stoa::curate
