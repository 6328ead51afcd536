// `stoa bench gemm`: GEMM rates, compared with the machine's register-bound peak and memory bandwidth.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_bench_gemm(CLI::App& bench, Context& context);

}  // namespace stoa::cli
