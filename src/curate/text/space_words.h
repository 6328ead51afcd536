// Words as pieces between white space, and how often sequences of them occur: what most filters but
// datatrove's count.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stoa::curate {

struct SpaceWord {
  std::string_view text;
  std::uint32_t characters = 0;
  std::uint64_t hash = 0;
};

// The word with its number of characters and its hash.
SpaceWord space_word(std::string_view text);

// As Python's str.split().
std::vector<SpaceWord> split_at_white_space(std::string_view text);
// The same words alone, added to `words`.
void split_at_white_space(std::string_view text, std::vector<std::string_view>& words);

// A hash of the `n` words from `at` on.
std::uint64_t ngram_key(std::span<const SpaceWord> words, std::size_t at, std::size_t n);

// The sequences of `n` words of a text; equal ones share a number.
class NgramCounts {
 public:
  NgramCounts(std::span<const SpaceWord> words, std::size_t n);

  std::size_t size() const { return number_.size(); }  // sequences in the text
  std::uint32_t count_at(std::size_t at) const { return counts_[number_[at]]; }
  bool is_first(std::size_t at) const { return first_[number_[at]] == at; }  // of the equal ones
  std::size_t most_frequent() const;              // where the first of the most frequent begins; size() > 0
  std::uint32_t most() const;                     // how often it occurs; 0: there are no sequences
  std::int64_t characters(std::size_t at) const;  // of the words of a sequence
  // Characters of the words in sequences that occur more than once, each word counted once.
  std::int64_t characters_in_repeated() const;

 private:
  std::span<const SpaceWord> words_;
  const std::size_t n_;
  std::vector<std::uint32_t> number_, counts_, first_;  // by place; by number
};

}  // namespace stoa::curate
