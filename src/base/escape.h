// Text for places where some characters mean something else.
#pragma once

#include <string>
#include <string_view>

namespace stoa {

// On one line of a terminal: line ends, tabs and control bytes as \n, \r, \t, \x1b; the characters of
// `special` (of a quoted string: the quote and the backslash) get a backslash.
std::string escape_controls(std::string_view text, std::string_view special = {});

// Appends the JSON string of a text in UTF-8, quotes included.
void append_json_string(std::string_view text, std::string& out);

// Escapes text between tags and in quoted attributes of HTML. `quote`: how a double quote is written; &quot;
// and &#34; mean the same, and callers that must match another program's bytes need the choice.
std::string escape_html_characters(std::string_view text, std::string_view quote = "&quot;");

}  // namespace stoa
