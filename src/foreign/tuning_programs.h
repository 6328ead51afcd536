// Configuration files of programs that tune models, which Stoa does not read.
#pragma once

#include <string>

#include "config/node.h"

namespace stoa::foreign {

// ConfigError where the keys are those of axolotl, LLaMA-Factory, TRL or torchtune: names the program, and
// the command that does the same.
void refuse_tuning_program(const config::Node& root, const std::string& path);

}  // namespace stoa::foreign
