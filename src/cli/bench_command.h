// `stoa bench gemm | train`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
