// The key of a server that a command asks.
#pragma once

#include <string>

#include "serve/http/message.h"

namespace stoa::cli {

// What tells a server the key in the first line of a file; nothing for "". IoError: it cannot be read.
serve::http::Headers key_headers(const std::string& file);

}  // namespace stoa::cli
