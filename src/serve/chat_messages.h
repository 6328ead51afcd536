// The messages of a request as a chat template takes them.
#pragma once

#include "serve/request_body.h"

namespace stoa::serve {

// `field`: "messages". Roles are checked, "developer" becomes "system", parts of text are joined, arguments
// of tool calls become objects. ApiError 400 names the message.
Json read_messages(const RequestBody& body, const char* field);
// A text, or parts of type text, joined; `place` for messages. ApiError 400: other parts.
std::string text_of_content(const Json& content, const std::string& place);

}  // namespace stoa::serve
