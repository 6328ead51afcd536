// `stoa plan memory CONFIG`, and the other commands of the planner.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_plan_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
