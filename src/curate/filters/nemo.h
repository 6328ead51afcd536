// The heuristic filters of NeMo Curator 1.4 in the order of its English chain: rules have its filters' names,
// thresholds the names of their parameters. Words are pieces between white space.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct NemoHeuristics {
  double max_non_alpha_numeric_to_text_ratio = 0.25, max_symbol_to_word_ratio = 0.1,
         max_number_to_text_ratio = 0.15, max_url_to_text_ratio = 0.2, max_white_space_ratio = 0.25,
         max_parentheses_ratio = 0.1, max_boilerplate_string_ratio = 0.4, max_repeated_line_fraction = 0.7,
         max_repeated_paragraphs_ratio = 0.7, max_repeated_lines_char_ratio = 0.8,
         max_repeated_paragraphs_char_ratio = 0.8;
  std::int64_t min_words = 50, max_words = 100000;
  double max_num_sentences_without_endmark_ratio = 0.85, min_words_with_alphabets = 0.8;
  std::int64_t min_num_common_words = 2;
  double min_mean_word_length = 3, max_mean_word_length = 10;
  std::int64_t max_word_length = 1000;
  double max_num_lines_ending_with_ellipsis_ratio = 0.3;
  std::vector<double> max_repeating_ngram_ratio = {0.2, 0.18, 0.16};  // of 2, 3, 4 … words
  std::vector<double> max_repeating_duplicate_ngram_ratio = {0.15, 0.14, 0.13,
                                                             0.12, 0.11, 0.1};  // of 5, 6 … words
  double max_bullet_lines_ratio = 0.9;
};
void declare(config::Section<NemoHeuristics>& s);
std::unique_ptr<Stage> make_stage(const NemoHeuristics& options);

}  // namespace stoa::curate
