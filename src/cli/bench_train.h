// `stoa bench train CONFIG`: speed and memory of training on random tokens.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_train(CLI::App& bench, Context& context);

}  // namespace stoa::cli
