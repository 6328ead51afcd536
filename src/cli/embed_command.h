// `stoa embed`: a vector per line of text.
#pragma once

#include "cli/command.h"

namespace stoa::cli {

void add_embed_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
