// The key of a server that a command asks.
#pragma once

#include <string>

namespace stoa::cli {

// The first line of a file, without blanks around it; "" for "". IoError: it cannot be read.
std::string api_key(const std::string& file);

}  // namespace stoa::cli
