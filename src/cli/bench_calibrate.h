// `stoa bench calibrate`: the planner's files of the machine that it runs on.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_calibrate(CLI::App& bench, Context& context);

}  // namespace stoa::cli
