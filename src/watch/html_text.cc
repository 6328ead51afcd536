#include "watch/html_text.h"

#include <cstddef>

#include "base/escape.h"

namespace stoa::watch {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes of the well-formed sequence at the start (Unicode, table 3-7), 0 where there is none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (lead == 0xe0 && at(1) < 0xa0) return 0;
    if (lead == 0xed && at(1) > 0x9f) return 0;  // surrogates
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (lead == 0xf0 && at(1) < 0x90) return 0;
    if (lead == 0xf4 && at(1) > 0x8f) return 0;  // beyond U+10FFFF
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string printable_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    if (length == 0) {
      out += kReplacement;
    } else if (byte < 0x20 && byte != '\n' && byte != '\t') {
      out += "\xe2\x90";  // U+2400 … U+241F picture the controls
      out += static_cast<char>(0x80 + byte);
    } else if (byte == 0x7f) {
      out += "\xe2\x90\xa1";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string escape_html(std::string_view text) { return escape_html_characters(printable_utf8(text)); }

}  // namespace stoa::watch
