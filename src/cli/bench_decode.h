// `stoa bench decode`: speed of an answer token by token, beside the bound that reading the weights sets.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_decode(CLI::App& bench, Context& context);

}  // namespace stoa::cli
