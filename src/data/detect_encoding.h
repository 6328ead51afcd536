// What a text file was written as, from its first bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoa::data {

struct DetectedEncoding {
  std::string name;      // a name for iconv; "UTF-8"; "": not detected
  std::size_t skip = 0;  // bytes of the byte-order mark
};

// By a byte-order mark; by the zero bytes of UTF-16 and UTF-32; UTF-8 where most of what is not ASCII is
// that; else by uchardet's statistics. `sample` may end within a character.
DetectedEncoding detect_encoding(std::string_view sample);

// Nearly all lines end as Windows writes them.
bool has_windows_line_ends(std::string_view sample);

}  // namespace stoa::data
