// The words of a corpus and how often each occurs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::token {

// Open-addressing table; the words are stored in one string.
class WordCounts {
 public:
  WordCounts();
  void add(std::string_view word, std::uint64_t hash, std::int64_t count);
  static std::uint64_t hash_of(std::string_view word);

  std::size_t size() const { return words_.size(); }
  std::string_view word(std::size_t i) const { return {text_.data() + words_[i].begin, words_[i].length}; }
  std::uint64_t hash(std::size_t i) const { return words_[i].hash; }
  std::int64_t count(std::size_t i) const { return words_[i].count; }

 private:
  struct Word {
    std::uint64_t hash, begin;
    std::uint32_t length;
    std::int64_t count;
  };
  void grow();

  std::vector<Word> words_;
  std::vector<std::uint32_t> slots_;  // index + 1
  std::string text_;
};

}  // namespace stoa::token
