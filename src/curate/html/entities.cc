#include "curate/html/entities.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/utf8.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLongestName = 32;

// What numbers 0x80 to 0x9f mean: windows-1252.
constexpr std::array<std::uint16_t, 32> kWindows = {
    0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};

// The number after "&#"; bytes that were used, 0: none.
std::size_t append_number(std::string_view text, std::string& out) {
  char32_t value = 0;
  const std::size_t at = read_reference_number(text, value);
  if (at == 0) return 0;
  if (value >= 0x80 && value < 0xa0) value = windows_1252(value);
  if (value == 0 || value >= 0x110000 || (value >= 0xd800 && value < 0xe000)) value = 0xfffd;
  append_utf8(value, out);
  return at + (at < text.size() && text[at] == ';');
}

// The longest name that `text` begins with; bytes that were used, 0: none.
std::size_t append_named(std::string_view text, std::string& out) {
  std::size_t letters = 0;
  while (letters < text.size() && letters < kLongestName && is_ascii_alphanumeric(text[letters])) ++letters;
  const auto append = [&](std::string_view name) {
    const auto found = find_entity(entity_names(), name);
    if (found) out += *found;
    return found.has_value();
  };
  if (letters < text.size() && text[letters] == ';' && append(text.substr(0, letters + 1)))
    return letters + 1;
  for (std::size_t n = std::min<std::size_t>(letters, 6); n >= 2; --n)  // names without a semicolon are short
    if (append(text.substr(0, n))) return n;
  return 0;
}

}  // namespace

char32_t windows_1252(char32_t c) { return kWindows[c - 0x80]; }

std::size_t read_reference_number(std::string_view text, char32_t& value) {
  const bool hex = !text.empty() && (text[0] == 'x' || text[0] == 'X');
  const std::size_t begin = hex ? 1 : 0;
  std::size_t at = begin;
  value = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    char32_t digit = 16;
    if (is_ascii_digit(c)) digit = static_cast<char32_t>(c - '0');
    if (hex && c >= 'a' && c <= 'f') digit = static_cast<char32_t>(c - 'a' + 10);
    if (hex && c >= 'A' && c <= 'F') digit = static_cast<char32_t>(c - 'A' + 10);
    if (digit == 16) break;
    if (value < 0x110000) value = value * (hex ? 16 : 10) + digit;
  }
  return at == begin ? 0 : at;
}

std::optional<std::string_view> find_entity(EntityNames names, std::string_view name) {
  const auto found =
      std::lower_bound(names.begin(), names.end(), name,
                       [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  if (found == names.end() || found->first != name) return std::nullopt;
  return found->second;
}

void append_unescaped(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t mark = text.find('&');
    out += text.substr(0, mark);
    if (mark == text.npos) return;
    text.remove_prefix(mark + 1);
    const bool number = text.starts_with('#');
    const std::size_t used = number ? append_number(text.substr(1), out) : append_named(text, out);
    if (used == 0) {
      out += '&';
    } else {
      text.remove_prefix(used + (number ? 1 : 0));
    }
  }
}

}  // namespace stoa::curate
