// Words of a text as lm-eval's janitor compares them (GPT-3's appendix C), and sequences of words by their
// hash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::curate {

// What stands between white space: where, and what is compared of it, lower case without ASCII punctuation.
struct ComparedWord {
  std::size_t begin = 0, end = 0;             // bytes
  std::size_t first_char = 0, last_char = 0;  // characters
  std::string normal;                         // may be empty
};
std::vector<ComparedWord> compared_words(std::string_view text);

std::uint64_t hash_of_words(std::string_view joined);

// Calls visit(hash, number of the first word) for every sequence of n words joined by blanks; ends where it
// returns false.
template <class Words, class Visit>
void each_ngram(const Words& words, std::size_t n, Visit&& visit) {
  std::string joined;
  std::vector<std::size_t> offsets;
  for (const auto& word : words) {
    offsets.push_back(joined.size());
    joined += word;
    joined += ' ';
  }
  offsets.push_back(joined.size());
  for (std::size_t i = 0; i + n < offsets.size(); ++i)
    if (!visit(hash_of_words(std::string_view(joined).substr(offsets[i], offsets[i + n] - 1 - offsets[i])),
               i))
      return;
}

}  // namespace stoa::curate
