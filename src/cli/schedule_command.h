// `stoa schedule`: pipeline schedules, drawn and timed before a run.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_schedule_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
