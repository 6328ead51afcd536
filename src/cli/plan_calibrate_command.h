// `stoa plan calibrate --rows ROWS.csv`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_plan_calibrate_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
