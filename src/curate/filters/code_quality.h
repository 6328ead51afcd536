// Source files as StarCoder's data was filtered (2305.06161): generated and data-like files go.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct CodeQuality {
  double max_line_length = 1000, max_mean_line_length = 100;
  double min_alphanumeric = 0.25;
  double min_comments = 0.01, max_comments = 0.8;
  std::vector<std::string> comments_of{"Python", "Java", "JavaScript"};
  double min_visible_text = 0.2, min_visible_characters = 100;
  bool drop_xml = true, drop_generated = true;
  std::vector<std::string> licenses;
};
void declare(config::Section<CodeQuality>& s);
std::unique_ptr<Stage> make_stage(const CodeQuality& options);

}  // namespace stoa::curate
