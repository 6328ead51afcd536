// Documents by the probability that a classifier gives one of its labels: quality as DCLM and GPT-3 judge it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct ClassifierFilter {
  std::string model;  // a file of fastText
  std::string label = "hq";
  std::string member = "quality";
  double threshold = 0;
  double pareto_alpha = 0;
  std::int64_t seed = 42;
};
void declare(config::Section<ClassifierFilter>& s);
// IoError, DataError where the model cannot be read; ConfigError: no model, or a label that it has not.
std::unique_ptr<Stage> make_stage(const ClassifierFilter& options);

}  // namespace stoa::curate
