// `stoa score MODEL [FILE]` (alias logprobs).
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_score_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
