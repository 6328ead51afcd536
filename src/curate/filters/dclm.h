// The heuristics of DCLM's RefinedWeb chain in its order: filters of whole pages, then lines that go, then
// pages that lost too many words. Its lists of addresses are those of url_filter; its deletion of addresses
// inside texts, which as written only happens where a text begins with a top-level domain, is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct DclmHeuristics {
  std::int64_t max_consecutive_newlines = 2, min_words = 50, max_words = 100000;
  double min_word_length = 3, max_word_length = 10, max_symbol_to_word_ratio = 0.1,
         max_bullet_start_ratio = 0.9, max_ellipsis_end_ratio = 0.3, max_non_alphabetic_word_ratio = 0.2;
  std::int64_t min_stop_word = 2;
  double max_repeated_lines = 0.3, max_repeated_paragraphs = 0.3, max_repeated_line_characters = 0.2,
         max_repeated_paragraph_characters = 0.2;
  std::vector<double> max_most_common_ngram = {0.2, 0.18, 0.16};                  // of 2, 3, 4 … words
  std::vector<double> max_repeated_ngrams = {0.15, 0.14, 0.13, 0.12, 0.11, 0.1};  // of 5, 6 … words
  double max_uppercase_ratio_of_line = 0.5, max_numeric_ratio_of_line = 0.999999;
  bool remove_counters = true, remove_buttons = true;
  std::int64_t min_words_of_line = 2;
  double max_removed_ratio = 0.05;
};
void declare(config::Section<DclmHeuristics>& s);
std::unique_ptr<Stage> make_stage(const DclmHeuristics& options);

}  // namespace stoa::curate
