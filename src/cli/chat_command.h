// `stoa chat MODEL`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_chat_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
