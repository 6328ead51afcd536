// Character references of HTML: &amp; &eacute &#233; &#xe9;.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stoa::curate {

// Appends text with its references resolved, as browsers do outside of attributes; bytes that are no
// reference stay.
void append_unescaped(std::string_view text, std::string& out);

// What a control character of 0x80 to 0x9f means in windows-1252, as browsers take it.
char32_t windows_1252(char32_t c);

// The digits after "&#", or x and the hexadecimal ones: their number, at least 0x110000 where it is beyond
// Unicode. Returns the bytes that were used; 0: none.
std::size_t read_reference_number(std::string_view text, char32_t& value);

// Names and what they stand for, in the order of the names.
using EntityNames = std::span<const std::pair<std::string_view, std::string_view>>;
std::optional<std::string_view> find_entity(EntityNames names, std::string_view name);

// Data (entity_data.cc): the names of HTML, with their semicolon where they need one.
EntityNames entity_names();

}  // namespace stoa::curate
