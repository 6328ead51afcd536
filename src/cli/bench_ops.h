// `stoa bench ops`: speed of single operations next to the machine's own peak.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_ops(CLI::App& bench, Context& context);

}  // namespace stoa::cli
