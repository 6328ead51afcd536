// `stoa eval perplexity MODEL --text FILE` and `stoa eval baselines --train FILE --text FILE`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_eval_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
