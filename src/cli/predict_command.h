// `stoa predict`: what the head of a fine-tuned encoder answers.
#pragma once

#include "cli/command.h"

namespace stoa::cli {

void add_predict_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
