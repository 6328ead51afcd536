#include "token/unicode.h"

#include <algorithm>
#include <string>

namespace stoa::token {

CodePoint read_utf8(const char* p, const char* end) {
  const auto byte = [p](int i) { return static_cast<std::uint8_t>(p[i]); };
  const auto tail = [&byte](int i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint32_t a = byte(0);
  if (a < 0x80) return {a, 1, true};
  const auto left = end - p;
  if (a >= 0xC2 && a < 0xE0 && left >= 2 && tail(1)) {
    return {(a & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2, true};
  }
  if (a >= 0xE0 && a < 0xF0 && left >= 3 && tail(1) && tail(2)) {
    const std::uint32_t c = (a & 0xFu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    if (c >= 0x800 && (c < 0xD800 || c >= 0xE000)) return {c, 3, true};
  }
  if (a >= 0xF0 && a < 0xF5 && left >= 4 && tail(1) && tail(2) && tail(3)) {
    const std::uint32_t c =
        (a & 7u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    if (c >= 0x10000 && c < 0x110000) return {c, 4, true};
  }
  return {a, 1, false};
}

CodePoint read_utf8_before(const char* begin, const char* p) {
  for (std::uint8_t n = 1; n <= 4 && p - begin >= n; ++n) {
    const CodePoint c = read_utf8(p - n, p);
    if (c.valid && c.length == n) return c;
  }
  return {static_cast<std::uint8_t>(p[-1]), 1, false};
}

UnicodeClasses::UnicodeClasses() : bits_(0x110000) {
  const auto runs = unicode_class_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t first = runs[i] >> 8, last = i + 1 < runs.size() ? runs[i + 1] >> 8 : bits_.size();
    std::fill(bits_.begin() + static_cast<std::ptrdiff_t>(first),
              bits_.begin() + static_cast<std::ptrdiff_t>(last), static_cast<std::uint8_t>(runs[i] & 0xFF));
  }
}

}  // namespace stoa::token
