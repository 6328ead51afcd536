#include "curate/text/space_words.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_map>

#include "curate/text/character.h"

namespace stoa::curate {

SpaceWord space_word(std::string_view text) {
  return {text, static_cast<std::uint32_t>(count_characters(text)), XXH3_64bits(text.data(), text.size())};
}

std::vector<SpaceWord> split_at_white_space(std::string_view text) {
  std::vector<SpaceWord> words;
  const char *p = text.data(), *const end = p + text.size();
  while (p < end) {
    const char* const begin = p;
    std::uint32_t count = 0;
    Character c{};
    while (p < end && !characters().has((c = read_character(p)).value, kSpace)) {
      p += c.length;
      ++count;
    }
    if (count > 0) {
      const std::string_view word(begin, static_cast<std::size_t>(p - begin));
      words.push_back({word, count, XXH3_64bits(word.data(), word.size())});
    } else {
      p += c.length;
    }
  }
  return words;
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
