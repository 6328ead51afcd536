// `stoa plan advise`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_plan_advise_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
