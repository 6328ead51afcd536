// Source files by StarCoder's table of extensions, as NeMo Curator's PerExtensionFilter applies it.
#pragma once

#include <memory>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct CodePerExtension {
  bool drop_unlisted = true;
  double max_mean_line_length = 100;  // where the table limits the longest line
};
void declare(config::Section<CodePerExtension>& s);
std::unique_ptr<Stage> make_stage(const CodePerExtension& options);

}  // namespace stoa::curate
