// White space as Python's str.strip() and str.split() see it, in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace stoa {

// Bytes of the white-space character that `text` begins with; 0 if it begins with none or is empty.
std::size_t leading_white_space(std::string_view text);
// Bytes of the white-space character that `text` ends with; 0 if it ends with none or is empty.
std::size_t trailing_white_space(std::string_view text);

}  // namespace stoa
