// `stoa bench decode`: speed of decoding, compared with the bound set by reading the weights once per token.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_decode(CLI::App& bench, Context& context);

}  // namespace stoa::cli
