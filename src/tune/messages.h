// Lists of messages as files have them, checked and brought into the form that chat templates take.
#pragma once

#include "tune/record.h"

namespace stoa::tune {

// Where a list of messages stands: in OpenAI's form ({"role", "content"}) or ShareGPT's ({"from", "value"}).
// `what` names the key for messages. DataError: not a list of messages, an unknown role, content that is not
// text, a weight other than 0 and 1.
Conversation read_messages(const Json& list, const Place& place, std::string_view what);

// {"role", "content"}, an empty conversation at first.
void add_message(Conversation& conversation, std::string_view role, std::string_view content);

// DataError: a system message that is not the first, a tool's result without a call, the same speaker twice,
// an assistant who begins, an answer that is empty.
void check_order(const Conversation& conversation, const Place& place);

// Tools, which some files hold as the text of a JSON list. DataError: no list.
Json read_tools(const Json& value, const Place& place);

}  // namespace stoa::tune
