// `stoa compare RUN_A RUN_B`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_compare_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
