// Version of the program and commit it was built from.
#pragma once

#include <string_view>

namespace stoa::cli {

std::string_view version();
std::string_view commit();  // "" outside a git checkout

}  // namespace stoa::cli
