// Characters as UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoa {

// Appends the 1 to 4 bytes of the code point `c` < 0x110000.
void append_utf8(char32_t c, std::string& out);

// White space as Python's str.strip() and str.split() see it.

// Bytes of the white-space character that `text` begins with; 0 if it begins with none or is empty.
std::size_t leading_white_space(std::string_view text);
// Bytes of the white-space character that `text` ends with; 0 if it ends with none or is empty.
std::size_t trailing_white_space(std::string_view text);

}  // namespace stoa
