// Characters as UTF-8.
#pragma once

#include <string>

namespace stoa {

// Appends the 1 to 4 bytes of the code point `c` < 0x110000.
void append_utf8(char32_t c, std::string& out);

}  // namespace stoa
