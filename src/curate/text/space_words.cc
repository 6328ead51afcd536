#include "curate/text/space_words.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "curate/text/character.h"

namespace stoa::curate {

SpaceWord space_word(std::string_view text) {
  return {text, static_cast<std::uint32_t>(count_characters(text)), XXH3_64bits(text.data(), text.size())};
}

namespace {

// What a byte says of the character that begins with it: it belongs to a word, is white space, or the rest
// must be looked at. In the middle of a character it belongs to a word.
enum class ByteKind : std::uint8_t { kWord, kSpace, kUnclear };

std::array<ByteKind, 256> kinds_of_bytes() {
  std::array<ByteKind, 256> kinds{};
  for (char32_t c = 0; c < 0x10000; ++c) {  // beyond, there is none
    if (!characters().has(c, kSpace)) continue;
    std::string bytes;
    append_utf8(c, bytes);
    kinds[static_cast<unsigned char>(bytes[0])] = bytes.size() == 1 ? ByteKind::kSpace : ByteKind::kUnclear;
  }
  return kinds;
}

// Calls visit(word) for every piece of valid UTF-8 between white space.
template <class Visit>
void each_space_word(std::string_view text, Visit&& visit) {
  static const std::array<ByteKind, 256> kinds = kinds_of_bytes();
  const char *p = text.data(), *const end = p + text.size();
  // The bytes of white space at p; 0: none.
  const auto space = [&]() -> std::size_t {
    const ByteKind kind = kinds[static_cast<unsigned char>(*p)];
    if (kind == ByteKind::kWord) return 0;
    if (kind == ByteKind::kSpace) return 1;
    const Character c = read_character(p);
    return characters().has(c.value, kSpace) ? c.length : 0;
  };
  while (p < end) {
    if (const std::size_t length = space(); length > 0) {
      p += length;
      continue;
    }
    const char* const begin = p;
    do ++p;
    while (p < end && space() == 0);
    visit(std::string_view(begin, p));
  }
}

}  // namespace

std::vector<SpaceWord> split_at_white_space(std::string_view text) {
  std::vector<SpaceWord> words;
  each_space_word(text, [&](std::string_view word) { words.push_back(space_word(word)); });
  return words;
}

void split_at_white_space(std::string_view text, std::vector<std::string_view>& words) {
  each_space_word(text, [&](std::string_view word) { words.push_back(word); });
}

std::uint64_t ngram_key(std::span<const SpaceWord> words, std::size_t at, std::size_t n) {
  std::uint64_t hash = 0;
  for (std::size_t k = 0; k < n; ++k) {
    hash = (hash << 23 | hash >> 41) ^ words[at + k].hash;
    hash *= 0x9fb21c651e98df25;
    hash ^= hash >> 32;
  }
  return hash;
}

NgramCounts::NgramCounts(std::span<const SpaceWord> words, std::size_t n) : words_(words), n_(n) {
  if (words.size() < n) return;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  numbers.reserve(words.size());
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    const auto [found, is_new] =
        numbers.try_emplace(ngram_key(words, i, n), static_cast<std::uint32_t>(counts_.size()));
    if (is_new) {
      counts_.push_back(0);
      first_.push_back(static_cast<std::uint32_t>(i));
    }
    number_.push_back(found->second);
    ++counts_[found->second];
  }
}

std::size_t NgramCounts::most_frequent() const {
  return first_[static_cast<std::size_t>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin())];
}

std::uint32_t NgramCounts::most() const {
  return counts_.empty() ? 0 : *std::max_element(counts_.begin(), counts_.end());
}

std::int64_t NgramCounts::characters(std::size_t at) const {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < n_; ++k) sum += words_[at + k].characters;
  return sum;
}

std::int64_t NgramCounts::characters_in_repeated() const {
  std::int64_t sum = 0;
  std::size_t counted = 0;  // words before this one have been looked at
  for (std::size_t at = 0; at < size(); ++at) {
    if (count_at(at) < 2) continue;
    for (std::size_t i = std::max(counted, at); i < at + n_; ++i) sum += words_[i].characters;
    counted = at + n_;
  }
  return sum;
}

}  // namespace stoa::curate
