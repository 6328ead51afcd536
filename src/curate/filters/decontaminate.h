// Documents that hold what a model will be tested with, by the rules of three programs:
//
//   gpt3       as the janitor of lm-eval (GPT-3's appendix C): sequences of 13 words, lower case without
//   ASCII
//              punctuation; around each hit 200 characters go, pieces of at most 200 characters too, and the
//              document where there are more than 10 hits. Pieces that stay are set off by a blank line.
//   datatrove  as its n-gram decontamination: sequences of 12 words of simplified text within answers, across
//   the
//              end of the question and, if asked for, within questions; the document goes.
//   dolma      paragraphs of at least 13 words that also stand in a test: the document goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

enum class Contamination { kGpt3, kDatatrove, kDolma };
std::span<const config::EnumName<Contamination>> enum_names(Contamination);

struct Decontaminate {
  Contamination rule = Contamination::kGpt3;
  std::vector<std::string>
      files;  // of tests: JSON lines (also compressed), or text with a test per paragraph
  std::string question_key = "question", answer_key = "answer";
  std::int64_t n_grams = 0;  // 0: as many as the rule has
  bool find_query_ngrams = false;
  std::int64_t window_to_remove = 200, too_dirty_cutoff = 10, minimum_slice_length = 200;
};
void declare(config::Section<Decontaminate>& s);
// ConfigError without files or where they hold no test, IoError and DataError where they cannot be read.
std::unique_ptr<Stage> make_stage(const Decontaminate& options);

}  // namespace stoa::curate
