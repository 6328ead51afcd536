#include "curate/text/space_words.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "curate/text/character.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace stoa::curate {

SpaceWord space_word(std::string_view text) {
  return {text, static_cast<std::uint32_t>(count_characters(text)), XXH3_64bits(text.data(), text.size())};
}

namespace {

// Calls visit(p) for every byte that may begin white space: those up to ' ', 0xc2 and 0xe1 to 0xe3.
template <class Visit>
void each_candidate(const char* p, const char* end, Visit&& visit) {
#if defined(__SSE2__)
  const __m128i space = _mm_set1_epi8(' '), two = _mm_set1_epi8(static_cast<char>(0xc2)),
                low = _mm_set1_epi8(static_cast<char>(0xe1)), high = _mm_set1_epi8(static_cast<char>(0xe3));
  for (; end - p >= 16; p += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i found = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes), _mm_cmpeq_epi8(bytes, two)),
        _mm_cmpeq_epi8(_mm_min_epu8(_mm_max_epu8(bytes, low), high), bytes));
    for (auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(found)); mask != 0; mask &= mask - 1)
      visit(p + std::countr_zero(mask));
  }
#endif
  for (; p < end; ++p) {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte <= ' ' || byte == 0xc2 || (byte >= 0xe1 && byte <= 0xe3)) visit(p);
  }
}

// Calls visit(word) for every piece of valid UTF-8 between white space.
template <class Visit>
void each_space_word(std::string_view text, Visit&& visit) {
  static const std::array<bool, 33> is_space = [] {
    std::array<bool, 33> space{};
    for (char32_t c = 0; c < space.size(); ++c) space[c] = characters().has(c, kSpace);
    return space;
  }();
  const char *begin = text.data(), *const end = begin + text.size();
  each_candidate(begin, end, [&](const char* p) {
    const auto byte = static_cast<unsigned char>(*p);
    std::size_t length = 1;
    if (byte > ' ') {
      const Character c = read_character(p);
      if (!characters().has(c.value, kSpace)) return;
      length = c.length;
    } else if (!is_space[byte]) {
      return;
    }
    if (begin < p) visit(std::string_view(begin, p));
    begin = p + length;
  });
  if (begin < end) visit(std::string_view(begin, end));
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
