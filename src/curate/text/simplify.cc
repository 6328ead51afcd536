#include "curate/text/simplify.h"

#include "base/utf8.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr char32_t kFirstSyllable = 0xac00, kLastSyllable = 0xd7a3, kLead = 0x1100, kVowel = 0x1161,
                   kTail = 0x11a7;
constexpr char32_t kVowels = 21, kTails = 28;

bool is_decimal_separator(char32_t c) {
  return c == '.' || c == ',' || c == 0x60c || c == 0x66b || (c >= 0x2396 && c <= 0x2398);
}

}  // namespace

void append_without_marks(char32_t c, std::string& out) {
  if (c >= kFirstSyllable && c <= kLastSyllable) {
    const char32_t index = c - kFirstSyllable;
    append_utf8(kLead + index / (kVowels * kTails), out);
    append_utf8(kVowel + index / kTails % kVowels, out);
    if (index % kTails != 0) append_utf8(kTail + index % kTails, out);
    return;
  }
  characters().stripped().apply(c, [&](char32_t to) {
    if (to != 0) append_utf8(to, out);
  });
}

std::string_view Simplifier::operator()(std::string_view text) {
  const Characters& table = characters();
  lower_.clear();
  out_.clear();
  append_lower(text, lower_);
  const char *const begin = lower_.data(), *const end = begin + lower_.size();
  const auto digits_end = [&](const char* p) {
    while (p < end) {
      const Character c = read_character(p);
      if (!table.has(c.value, kDecimal)) break;
      p += c.length;
    }
    return p;
  };
  bool began = false, blank = false;
  for (const char* p = begin; p < end;) {
    const Character c = read_character(p);
    const std::uint32_t classes = table.classes(c);
    // Numbers come first: a fullwidth 1 is among datatrove's punctuation, too.
    if ((classes & (kSpace | kSymbol)) != 0 && (classes & kDecimal) == 0) {
      blank = began;
      p += c.length;
      continue;
    }
    if (blank) out_ += ' ';
    blank = false;
    began = true;
    if (classes & kDecimal) {
      out_ += '0';
      p = digits_end(p);
      if (p == end) break;
      const Character separator = read_character(p);
      if (!is_decimal_separator(separator.value)) continue;
      const char* const fraction = p + separator.length;
      if (const char* const after = digits_end(fraction); after > fraction) p = after;
      continue;
    }
    if (c.length == 1)
      out_ += *p;
    else
      append_without_marks(c.value, out_);
    p += c.length;
  }
  return strip(out_);
}

}  // namespace stoa::curate
