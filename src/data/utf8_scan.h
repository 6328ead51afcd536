// Where text stops being UTF-8 (Unicode 15, section 3.9, table 3-7: no overlong forms, no surrogates).
#pragma once

#include <cstddef>
#include <string_view>

namespace stoa::data {

struct Utf8Scan {
  std::size_t valid = 0;   // bytes up to the first that is not part of a whole character
  bool truncated = false;  // what follows is the beginning of a character: more bytes may complete it
};
Utf8Scan scan_utf8(std::string_view text);

}  // namespace stoa::data
