#include "base/utf8.h"

#include <cstdint>

namespace stoa {

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

std::size_t leading_white_space(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if ((first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20)) return 1;
  if (first == 0xc2) return byte(1) == 0x85 || byte(1) == 0xa0 ? 2 : 0;  // U+0085, U+00A0
  const unsigned two = first << 8 | byte(1), third = byte(2);
  bool is = false;
  if (two == 0xe19a || two == 0xe380) is = third == 0x80;  // U+1680, U+3000
  if (two == 0xe280) is = (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf;
  if (two == 0xe281) is = third == 0x9f;  // U+205F
  return is ? 3 : 0;
}

std::size_t trailing_white_space(std::string_view text) {
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n)
    if (leading_white_space(text.substr(text.size() - n)) == n) return n;
  return 0;
}

}  // namespace stoa
