// The filters of FineWeb as datatrove 0.10 decides them: names of rules and thresholds are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct GopherRepetition {
  double dup_line_frac = 0.3, dup_para_frac = 0.3, dup_line_char_frac = 0.2, dup_para_char_frac = 0.2;
  std::vector<double> top_n_grams = {0.2, 0.18, 0.16};                    // of 2, 3, 4 … words
  std::vector<double> dup_n_grams = {0.15, 0.14, 0.13, 0.12, 0.11, 0.1};  // of 5, 6 … words
};
void declare(config::Section<GopherRepetition>& s);
std::unique_ptr<Stage> make_stage(const GopherRepetition& options);

struct GopherQuality {
  std::int64_t min_doc_words = 50, max_doc_words = 100000;
  double min_avg_word_length = 3, max_avg_word_length = 10, max_symbol_word_ratio = 0.1,
         max_bullet_lines_ratio = 0.9, max_ellipsis_lines_ratio = 0.3, max_non_alpha_words_ratio = 0.8;
  std::int64_t min_stop_words = 2;
  std::vector<std::string> stop_words = {"the", "be", "to", "of", "and", "that", "have", "with"};
};
void declare(config::Section<GopherQuality>& s);
std::unique_ptr<Stage> make_stage(const GopherQuality& options);

struct C4Quality {
  bool remove_citations = true, filter_no_terminal_punct = true, filter_lorem_ipsum = true,
       filter_javascript = true, filter_curly_bracket = true, filter_policy = true;
  std::int64_t min_num_sentences = 5, min_words_per_line = 3, max_word_length = 1000;  // -1: off
};
void declare(config::Section<C4Quality>& s);
std::unique_ptr<Stage> make_stage(const C4Quality& options);

struct C4BadWords {
  std::string words;  // file
  bool whole_words = true;
};
void declare(config::Section<C4BadWords>& s);
// IoError where the list cannot be read, ConfigError where there is none.
std::unique_ptr<Stage> make_stage(const C4BadWords& options);

struct FineWebQuality {
  double line_punct_thr = 0.12;
  bool line_punct_exclude_zero = false;
  double short_line_thr = 0.67;
  std::int64_t short_line_length = 30;
  double char_duplicates_ratio = 0.01, new_line_ratio = 0.3;
};
void declare(config::Section<FineWebQuality>& s);
std::unique_ptr<Stage> make_stage(const FineWebQuality& options);

}  // namespace stoa::curate
