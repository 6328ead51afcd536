// The filters of ROOTS, BLOOM's corpus (2303.03915; BigScience's data-preparation,
// 01b_oscar_cleaning_and_filtering): long words and addresses go out of a text, then shares of characters and
// words decide. Its language and perplexity filters are the stages `language` and `perplexity`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct RootsFilter {
  bool uniform_whitespace = true;
  std::vector<std::string> incorrect_word_substrings;
  std::int64_t length_word_max_cutoff = 0;
  std::int64_t number_words_min_cutoff = 10, number_words_max_cutoff = 100'000;
  std::int64_t character_repetition_length = 10, word_repetition_length = 5;
  double character_repetition_max_cutoff = 0.2, word_repetition_max_cutoff = 0.3;
  double special_characters_max_cutoff = 0.4;
  std::string stop_words, flagged_words;  // files
  std::vector<std::int64_t> words_augmentation_group_sizes;
  std::string words_augmentation_join_char;
  double stopwords_min_cutoff = 0.1, flagged_words_max_cutoff = 0.1;
};
void declare(config::Section<RootsFilter>& s);
// IoError: a list that cannot be read; ConfigError: one without an entry.
std::unique_ptr<Stage> make_stage(const RootsFilter& options);

// Data (roots_characters.cc): first and last of each run of special characters, ascending.
std::span<const std::pair<char32_t, char32_t>> roots_special_characters();

}  // namespace stoa::curate
