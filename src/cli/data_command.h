// `stoa data prepare` and `stoa data inspect`.
#pragma once

#include "cli/command.h"

namespace stoa::cli {

void add_data_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
