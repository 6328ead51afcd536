// `stoa bench pipeline CONFIG`: schedules against each other on ranks of one process, and against what their
// simulation says.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_pipeline(CLI::App& bench, Context& context);

}  // namespace stoa::cli
