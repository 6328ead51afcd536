// `stoa checkpoint inspect | verify | export`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_checkpoint_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
