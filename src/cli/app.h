// The program's command line: every command with its options.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"

namespace stoa::cli {

// `context` must outlive it.
std::unique_ptr<CLI::App> make_app(Context& context);

}  // namespace stoa::cli
