// The quality signals of RedPajama-Data v2 (its quality_signals of natural language, repetitions, content and
// lines): rules have the names of its signals, those of lines as means over the lines of a document. It
// publishes signals and no decisions; the thresholds here are Gopher's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct RedPajamaSignals {
  std::int64_t min_word_count = 50, max_word_count = 100000, min_num_sentences = 0;
  double min_mean_word_length = 3, max_mean_word_length = 10, max_symbol_to_word_ratio = 0.1,
         max_frac_lines_end_with_ellipsis = 0.3, max_frac_no_alph_words = 0.2, min_frac_unique_words = 0,
         min_unigram_entropy = 0, max_frac_all_caps_words = 0;
  std::vector<double> max_frac_chars_top_gram = {0.2, 0.18, 0.16};  // of 2, 3, 4 … words
  std::vector<double> max_frac_chars_dupe_grams = {0.15, 0.14, 0.13, 0.12, 0.11, 0.1};  // of 5, 6 … words
  double max_lorem_ipsum = 0, max_curly_bracket = 0;
  std::string stop_words, bad_words;  // files
  double min_stop_word_fraction = 0, max_ldnoobw_words = 0;
  double min_lines_ending_with_terminal_punctution_mark = 0, max_lines_javascript_counts = 0,
         min_lines_num_words = 0, max_lines_uppercase_letter_fraction = 0,
         max_lines_numerical_chars_fraction = 0, max_lines_start_with_bulletpoint = 0.9;
};
void declare(config::Section<RedPajamaSignals>& s);
// IoError where a list cannot be read, ConfigError for a threshold of words without the list.
std::unique_ptr<Stage> make_stage(const RedPajamaSignals& options);

}  // namespace stoa::curate
