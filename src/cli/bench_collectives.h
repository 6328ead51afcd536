// `stoa bench collectives`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_collectives(CLI::App& bench, Context& context);

}  // namespace stoa::cli
