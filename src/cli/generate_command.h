// `stoa generate MODEL --prompt TEXT`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "run/generate.h"

namespace stoa::cli {

// Options that generate and chat share.
void add_sampling_options(CLI::App& command, run::GenerateOptions& options);
void add_generate_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
