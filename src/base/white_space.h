// White space as Python's str.strip() and str.split() see it, in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace stoa {

// Bytes of the white-space character that `text` begins with; 0 where it begins with another or is empty.
std::size_t leading_white_space(std::string_view text);
// Of the one that it ends with.
std::size_t trailing_white_space(std::string_view text);

}  // namespace stoa
