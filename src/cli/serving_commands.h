// Commands about the speed of the engine and of servers.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_engine(CLI::App& bench, Context& context);
void add_plan_serve_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
