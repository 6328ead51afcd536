// Documents by how well an n-gram model predicts them (CCNet).
#pragma once

#include <memory>
#include <string>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct PerplexityFilter {
  std::string model;  // an ARPA file
  std::string tokenizer;
  bool normalize = true;
  double max_perplexity = 0, min_perplexity = 0;
};
void declare(config::Section<PerplexityFilter>& s);
// IoError, DataError where the model or the tokenizer cannot be read; ConfigError where no model is named.
std::unique_ptr<Stage> make_stage(const PerplexityFilter& options);

}  // namespace stoa::curate
