// Character references of HTML: &amp; &eacute &#233; &#xe9;.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stoa::curate {

// Appends text with its references resolved, as browsers do outside of attributes; bytes that are no
// reference stay.
void append_unescaped(std::string_view text, std::string& out);

// Data (entity_data.cc): names, with their semicolon where they need one, and what they stand for; in the
// order of the names.
std::span<const std::pair<std::string_view, std::string_view>> entity_names();

}  // namespace stoa::curate
