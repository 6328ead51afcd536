// The chat page at /: one file without outside resources.
#pragma once

#include <string_view>

#include "serve/http/message.h"

namespace stoa::serve {

std::string_view chat_page();
// A policy under which the page can load nothing from elsewhere.
http::Headers page_headers();

}  // namespace stoa::serve
