#include "curate/dedup/minhash.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

namespace stoa::curate {
namespace {

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

// `count` numbers in [low, 2^61 - 1), as numpy.random.RandomState.randint draws them.
std::vector<std::uint64_t> draw(std::mt19937& random, std::size_t count, std::uint64_t low) {
  const std::uint64_t range = kPrime - 1 - low, mask = std::bit_ceil(range + 1) - 1;
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) {
    do {
      const std::uint64_t high = random();
      value = (high << 32 | random()) & mask;
    } while (value > range);
    value += low;
  }
  return values;
}

// The loop is compiled for several instruction sets: 64-bit products are what it lives of.
[[gnu::always_inline]] inline void lower_minima(const std::uint64_t* a, const std::uint64_t* b,
                                                std::size_t count, std::uint64_t h, std::uint64_t* minima) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t v = h * a[i] + b[i];
    v = (v & kPrime) + (v >> 61);
    v = v >= kPrime ? v - kPrime : v;
    minima[i] = v < minima[i] ? v : minima[i];
  }
}

using Lower = void (*)(const std::uint64_t*, const std::uint64_t*, std::size_t, std::uint64_t,
                       std::uint64_t*);

void lower_minima_plain(const std::uint64_t* a, const std::uint64_t* b, std::size_t n, std::uint64_t h,
                        std::uint64_t* m) {
  lower_minima(a, b, n, h, m);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void lower_minima_avx2(const std::uint64_t* a, const std::uint64_t* b, std::size_t n,
                                               std::uint64_t h, std::uint64_t* m) {
  lower_minima(a, b, n, h, m);
}
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void lower_minima_avx512(
    const std::uint64_t* a, const std::uint64_t* b, std::size_t n, std::uint64_t h, std::uint64_t* m) {
  lower_minima(a, b, n, h, m);
}
#endif

Lower choose_lower_minima() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return lower_minima_avx512;
  if (__builtin_cpu_supports("avx2")) return lower_minima_avx2;
#endif
  return lower_minima_plain;
}

}  // namespace

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
  a_ = draw(random, count, 1);
  b_ = draw(random, count, 0);
}

std::span<const std::uint64_t> MinHashSigner::sign(std::string_view text) {
  static const Lower lower = choose_lower_minima();
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
  const auto signature = sign(text);
  const auto per_band = static_cast<std::size_t>(hash_.options().hashes_per_bucket);
  for (std::size_t band = 0; band * per_band < signature.size(); ++band)
    keys.push_back(
        XXH3_64bits_withSeed(signature.data() + band * per_band, per_band * sizeof(std::uint64_t), band));
}

}  // namespace stoa::curate
