// `stoa train CONFIG [key=value …]`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_train_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
