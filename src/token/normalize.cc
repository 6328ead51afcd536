#include "token/normalize.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"

namespace stoa::token {
namespace {

// NFC of one run of valid UTF-8.
void append_nfc(std::string_view run, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                              static_cast<utf8proc_ssize_t>(run.size()), &result,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  require<DataError>(n >= 0, "NFC normalization failed: {}", utf8proc_errmsg(n));
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(n));
}

}  // namespace

// Only a character that combines() can change, together with the character before it and those that combine
// after it; all else is copied. (Unicode Standard Annex 15, section 9: a starter with NFC_Quick_Check=Yes
// never joins to its left.)
std::string_view normalize_nfc(std::string_view text, const UnicodeClasses& classes, std::string& storage) {
  const char *begin = text.data(), *end = begin + text.size(), *copied = begin, *p = begin;
  const char* base = nullptr;  // start of the last character that may take marks
  bool changed = false;
  while (p < end) {
    if (static_cast<unsigned char>(*p) < 0x80) {
      base = p++;
      continue;
    }
    const CodePoint c = read_utf8(p, end);
    if (!classes.combines(c)) {
      base = c.valid && !classes.is_barrier(c) ? p : nullptr;
      p += c.length;
      continue;
    }
    const char* first = base != nullptr ? base : p;
    while (p < end) {
      const CodePoint mark = read_utf8(p, end);
      if (!classes.combines(mark)) break;
      p += mark.length;
    }
    if (!changed) storage.clear();
    changed = true;
    storage.append(copied, first);
    append_nfc({first, static_cast<std::size_t>(p - first)}, storage);
    copied = p;
    base = nullptr;
  }
  if (!changed) return text;
  storage.append(copied, end);
  return storage;
}

}  // namespace stoa::token
