// Makes text of unknown origin (written by a model, named by a user) safe for HTML.
#pragma once

#include <string>
#include <string_view>

namespace stoa::watch {

// Valid UTF-8: what is not becomes U+FFFD; control characters but tab and line break become their visible
// pictures.
std::string printable_utf8(std::string_view text);

// printable_utf8 with & < > " ' as entities: for text between tags and for quoted attributes.
std::string escape_html(std::string_view text);

}  // namespace stoa::watch
