// `stoa plan inference`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_plan_inference_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
