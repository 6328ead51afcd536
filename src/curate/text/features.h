// What the rules of all filters ask about one text: computed when first asked for, once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "curate/text/english_words.h"

namespace stoa::curate {

struct Line {
  std::string_view text;
  std::uint32_t characters = 0;
};

// Second and later copies among pieces of text.
struct Repeats {
  std::int64_t pieces = 0, characters = 0;
};

class Features {
 public:
  // Valid UTF-8 that outlives its use here.
  void reset(std::string_view text);
  // The same, of a text whose number of words is known.
  void reset(std::string_view text, std::int64_t words);

  std::string_view text() const { return text_; }
  std::int64_t characters();      // code points
  std::span<const Line> lines();  // between newlines, empty ones too
  std::span<const Word> words();
  std::int64_t word_count() { return word_count_ ? *word_count_ : static_cast<std::int64_t>(words().size()); }
  // Words of a part of the text, in a cache of its own: words() stays.
  EnglishWords& other_words() { return other_; }

  Repeats repeats(std::span<const Line> pieces);
  // Number of code points of the most frequent n-gram of words joined by blanks, the first of equally
  // frequent ones, times its frequency. 0 where there are fewer words.
  std::int64_t top_ngram_characters(int n);
  // Code points of n-grams that have been seen before, from left to right without overlap; n-grams are
  // compared as their words joined without blanks.
  std::int64_t repeated_ngram_characters(int n);

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t count = 0, first = 0;
  };
  void clear_slots(std::size_t entries);
  void sum_hashes();
  bool same_words(std::size_t a, std::size_t b, int n) const;

  std::string_view text_;
  std::optional<std::int64_t> characters_, word_count_;
  bool has_lines_ = false, has_words_ = false, has_sums_ = false;
  std::vector<Line> lines_;
  std::span<const Word> words_;
  EnglishWords english_, other_;
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::vector<std::uint64_t> sums_,
      unshift_;  // of the hashes of the words before each; what moves a sum to the beginning
};

// As re.split("\n+"): between runs of newlines; an empty piece before and after them at the ends.
void split_at_newlines(Features& features, std::vector<Line>& pieces);

}  // namespace stoa::curate
