#include "curate/dedup/nemo_minhash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "curate/dedup/hash_functions.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

std::uint32_t read32(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
std::uint64_t read64(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

// Up to eight bytes, the first one lowest.
std::uint64_t read_tail(std::string_view bytes) {
  std::uint64_t v = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(bytes[i]);
  return v;
}

std::uint64_t finish64(std::uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccd;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53;
  return k ^ k >> 33;
}

template <class Word>
Word hashed(std::string_view piece, std::uint64_t seed) {
  if constexpr (sizeof(Word) == 4)
    return murmur3_x86_32(piece, static_cast<std::uint32_t>(seed));
  else
    return murmur3_x64_64(piece, seed);
}

}  // namespace

std::uint32_t murmur3_x86_32(std::string_view bytes, std::uint32_t seed) {
  constexpr std::uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
  const auto mixed = [](std::uint32_t k) { return std::rotl(k * kFirst, 15) * kSecond; };
  std::uint32_t h = seed;
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4)
    h = std::rotl(h ^ mixed(read32(bytes.data() + at)), 13) * 5 + 0xe6546b64;
  if (at < bytes.size()) h ^= mixed(static_cast<std::uint32_t>(read_tail(bytes.substr(at))));
  h ^= static_cast<std::uint32_t>(bytes.size());
  h = (h ^ h >> 16) * 0x85ebca6b;
  h = (h ^ h >> 13) * 0xc2b2ae35;
  return h ^ h >> 16;
}

std::uint64_t murmur3_x64_64(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t kFirst = 0x87c37b91114253d5, kSecond = 0x4cf5ad432745937f;
  const auto low = [](std::uint64_t k) { return std::rotl(k * kFirst, 31) * kSecond; };
  const auto high = [](std::uint64_t k) { return std::rotl(k * kSecond, 33) * kFirst; };
  std::uint64_t h1 = seed, h2 = seed;
  std::size_t at = 0;
  for (; at + 16 <= bytes.size(); at += 16) {
    h1 = (std::rotl(h1 ^ low(read64(bytes.data() + at)), 27) + h2) * 5 + 0x52dce729;
    h2 = (std::rotl(h2 ^ high(read64(bytes.data() + at + 8)), 31) + h1) * 5 + 0x38495ab5;
  }
  const std::string_view tail = bytes.substr(at);
  if (tail.size() > 8) h2 ^= high(read_tail(tail.substr(8)));
  if (!tail.empty()) h1 ^= low(read_tail(tail.substr(0, 8)));
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  return finish64(h1) + finish64(h2);
}

void declare(config::Section<NemoMinHashOptions>& s) {
  s.field("char_ngrams", &NemoMinHashOptions::char_ngrams)
      .range(2, 1000)
      .unit("characters")
      .help("Length of the sequences that are compared.");
  s.field("num_bands", &NemoMinHashOptions::num_bands)
      .range(1, 1000)
      .help("Bands: documents that agree in one of them are near-duplicates.");
  s.field("minhashes_per_band", &NemoMinHashOptions::minhashes_per_band)
      .range(1, 1000)
      .help("Hashes per band: more find closer copies only.");
  s.field("seed", &NemoMinHashOptions::seed).range(0, 4294967295).help("Seed of the hash functions.");
  s.field("use_64_bit_hash", &NemoMinHashOptions::use_64_bit_hash).help("Hashes of 64 bits instead of 32.");
}

NemoHashFunctions draw_nemo_functions(const NemoMinHashOptions& options) {
  std::mt19937 random(static_cast<std::uint32_t>(options.seed));
  const bool wide = options.use_64_bit_hash;
  const std::uint64_t prime = wide ? kPrime61 : kPrime31;
  NemoHashFunctions out;
  for (std::int64_t i = 0; i < options.num_bands * options.minhashes_per_band; ++i) {
    out.factors.push_back(draw_below(random, 1, prime, wide));
    out.addends.push_back(draw_below(random, 0, prime, wide));
  }
  out.seed = out.factors.front();
  return out;
}

NemoMinHash::NemoMinHash(const NemoMinHashOptions& options, const NemoHashFunctions& functions)
    : options_(options), seed_(functions.seed) {
  for (std::size_t i = 0; i < functions.factors.size(); ++i) {
    if (options.use_64_bit_hash) {
      a64_.push_back(functions.factors[i]);
      b64_.push_back(functions.addends[i]);
    } else {
      a32_.push_back(static_cast<std::uint32_t>(functions.factors[i]));
      b32_.push_back(static_cast<std::uint32_t>(functions.addends[i]));
    }
  }
}

template <class Word>
void NemoMinHash::sign_as(std::string_view text, const std::vector<Word>& a, const std::vector<Word>& b,
                          std::vector<std::uint64_t>& minima) const {
  static const auto lower = choose_lower_minima<Word>();
  std::vector<Word> least(a.size(), text.empty() ? Word{0} : std::numeric_limits<Word>::max());
  const char *begin = text.data(), *const end = begin + text.size(), *ahead = begin;
  for (std::int64_t n = 0; n < options_.char_ngrams && ahead < end; ++n)
    ahead += read_character(ahead).length;
  while (!text.empty()) {
    const std::string_view piece(begin, static_cast<std::size_t>(ahead - begin));
    lower(a.data(), b.data(), a.size(), std::max(hashed<Word>(piece, seed_), Word{1}), least.data());
    if (ahead == end) break;
    begin += read_character(begin).length;
    ahead += read_character(ahead).length;
  }
  minima.assign(least.begin(), least.end());
}

void NemoMinHash::sign(std::string_view text, std::vector<std::uint64_t>& minima) const {
  if (options_.use_64_bit_hash)
    sign_as(text, a64_, b64_, minima);
  else
    sign_as(text, a32_, b32_, minima);
}

void NemoMinHash::band_keys(std::string_view text, std::vector<std::uint64_t>& keys) const {
  std::vector<std::uint64_t> minima;
  sign(text, minima);
  append_band_keys(minima, options_.minhashes_per_band, keys);
}

}  // namespace stoa::curate
