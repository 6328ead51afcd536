// Version of the program and commit it was built from.
#pragma once

#include <string>
#include <string_view>

namespace stoa::cli {

std::string_view version();
std::string_view commit();  // "" outside a git checkout
std::string build_name();   // "stoa 1.2.0 (0123456789ab)": what all processes of a job share

}  // namespace stoa::cli
