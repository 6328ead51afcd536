// The taggers gopher_v1 (or v2) and c4_v2 (or v1) of dolma 1.2 and the thresholds of the Dolma corpus: rules
// have the names of its attributes. Words are pieces between white space; characters do not count white
// space; copies count with what they are copies of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct DolmaTaggers {
  bool ignore_empty_lines = false;                                             // gopher_v2
  std::vector<double> most_common_ngram = {0.2, 0.18, 0.16};                   // of 2, 3, 4 … words
  std::vector<double> duplicate_ngrams = {0.15, 0.14, 0.13, 0.12, 0.11, 0.1};  // of 5, 6 … words
  std::int64_t min_word_count = 50, max_word_count = 100000;
  double min_median_word_length = 3, max_median_word_length = 10, max_symbol_to_word_ratio = 0.1,
         min_words_with_alpha_character = 0.8;
  std::int64_t min_required_word_count = 2;
  double max_lines_starting_with_bullet_point = 0.9, max_lines_ending_with_ellipsis = 0.3,
         max_duplicate_lines = 0.3, max_characters_in_duplicate_lines = 0.3;
  bool drop_curly_brace = false, drop_lorem_ipsum = false, drop_javascript = false;
  bool javascript_as_word = false;  // c4_v1
  std::string naughty_words;        // file
  double max_lines_with_no_ending_punctuation = 0, max_lines_with_too_few_words = 0;
  bool remove_lines_with_no_ending_punctuation = true;
};
void declare(config::Section<DolmaTaggers>& s);
// IoError where the list cannot be read.
std::unique_ptr<Stage> make_stage(const DolmaTaggers& options);

}  // namespace stoa::curate
