// `stoa data show CONFIG --step N`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace stoa::cli {

void add_data_show(CLI::App& data, Context& context);

}  // namespace stoa::cli
