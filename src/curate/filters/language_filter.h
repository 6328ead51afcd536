// Documents by their language; the language and its score become members of the document.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct LanguageFilter {
  std::string model = "cld2";          // or "stoa", or a file of fastText
  std::vector<std::string> languages;  // empty: any
  double threshold = 0.65;
  std::int64_t cld2_bytes = 16'384;  // of a text that CLD2 and Stoa's classifier judge; 0: all
  bool label_only = false;
};
void declare(config::Section<LanguageFilter>& s);
// IoError, DataError where the model cannot be read.
std::unique_ptr<Stage> make_stage(const LanguageFilter& options);

}  // namespace stoa::curate
