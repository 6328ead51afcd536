// `stoa plan size` and `stoa plan base-config`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_plan_size_command(CLI::App& plan, Context& context);
void add_plan_base_config_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
