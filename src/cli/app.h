// The program: its version, and its command line, which is every command with its options.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace stoa::cli {

std::string_view version();
std::string_view commit();  // that it was built from; "" outside a git checkout
std::string build_name();   // "stoa 1.2.0 (0123456789ab)": what all processes of a job share

// `context` must outlive it.
std::unique_ptr<CLI::App> make_app(Context& context);

}  // namespace stoa::cli
