// `stoa generate MODEL --prompt TEXT`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_generate_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
