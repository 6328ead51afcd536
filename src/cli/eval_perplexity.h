// stoa eval perplexity
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_eval_perplexity(CLI::App& eval, Context& context);

}  // namespace stoa::cli
