#include "curate/text/word_break.h"

#include <algorithm>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// In the order of scripts/make_curate_tables.py.
enum WordBreak : std::uint8_t {
  kOther,
  kCr,
  kLf,
  kNewline,
  kExtend,
  kZwj,
  kRegionalIndicator,
  kFormat,
  kKatakana,
  kHebrewLetter,
  kALetter,
  kSingleQuote,
  kDoubleQuote,
  kMidNumLet,
  kMidLetter,
  kMidNum,
  kBreakNumeric,
  kExtendNumLet,
  kWSegSpace,
};
constexpr std::uint8_t kPictograph = 0x80;

std::uint8_t search_property(char32_t c) {
  const auto runs = word_break_runs();
  const auto after = std::upper_bound(runs.begin(), runs.end(), static_cast<std::uint32_t>(c << 8 | 255));
  return static_cast<std::uint8_t>(*(after - 1));
}

std::uint8_t property_of(char32_t c) {
  static const std::vector<std::uint8_t> latin = [] {
    std::vector<std::uint8_t> table(256);
    for (char32_t i = 0; i < 256; ++i) table[i] = search_property(i);
    return table;
  }();
  return c < 256 ? latin[c] : search_property(c);
}

bool is_line_end(std::uint8_t p) { return p == kCr || p == kLf || p == kNewline; }
bool is_skipped(std::uint8_t p) { return p == kExtend || p == kFormat || p == kZwj; }
bool is_letter(std::uint8_t p) { return p == kALetter || p == kHebrewLetter; }
bool is_inside_word(std::uint8_t p) { return p == kMidLetter || p == kMidNumLet || p == kSingleQuote; }
bool is_inside_number(std::uint8_t p) { return p == kMidNum || p == kMidNumLet || p == kSingleQuote; }

// The property of the first character at `p` or after it that is not skipped (WB4).
std::uint8_t next_property(const char* p, const char* end) {
  while (p < end) {
    const Character c = read_character(p);
    const std::uint8_t property = property_of(c.value) & ~kPictograph;
    if (!is_skipped(property)) return property;
    p += c.length;
  }
  return kOther;
}

}  // namespace

void split_at_word_breaks(std::string_view text, std::vector<std::string_view>& pieces) {
  const char *const end = text.data() + text.size(), *begin = text.data();
  // The character just before, and the last two that are not skipped.
  std::uint8_t raw = kOther, before = kOther, last = kOther;
  bool odd_indicators = false;
  for (const char* p = begin; p < end;) {
    const Character c = read_character(p);
    const std::uint8_t value = property_of(c.value), now = value & ~kPictograph;
    const auto joined = [&] {
      if (raw == kCr && now == kLf) return true;                   // WB3
      if (is_line_end(raw) || is_line_end(now)) return false;      // WB3a, WB3b
      if (raw == kZwj && (value & kPictograph) != 0) return true;  // WB3c
      if (raw == kWSegSpace && now == kWSegSpace) return true;     // WB3d
      if (is_skipped(now)) return true;                            // WB4
      if (is_letter(last) && is_letter(now)) return true;          // WB5
      const auto next = [&] { return next_property(p + c.length, end); };
      if (is_letter(last) && is_inside_word(now) && is_letter(next())) return true;                // WB6
      if (is_letter(before) && is_inside_word(last) && is_letter(now)) return true;                // WB7
      if (last == kHebrewLetter && now == kSingleQuote) return true;                               // WB7a
      if (last == kHebrewLetter && now == kDoubleQuote && next() == kHebrewLetter) return true;    // WB7b
      if (before == kHebrewLetter && last == kDoubleQuote && now == kHebrewLetter) return true;    // WB7c
      if (last == kBreakNumeric && now == kBreakNumeric) return true;                              // WB8
      if (is_letter(last) && now == kBreakNumeric) return true;                                    // WB9
      if (last == kBreakNumeric && is_letter(now)) return true;                                    // WB10
      if (before == kBreakNumeric && is_inside_number(last) && now == kBreakNumeric) return true;  // WB11
      if (last == kBreakNumeric && is_inside_number(now) && next() == kBreakNumeric) return true;  // WB12
      if (last == kKatakana && now == kKatakana) return true;                                      // WB13
      const auto extends = [](std::uint8_t x) {
        return is_letter(x) || x == kBreakNumeric || x == kKatakana;
      };
      if ((extends(last) || last == kExtendNumLet) && now == kExtendNumLet) return true;  // WB13a
      if (last == kExtendNumLet && extends(now)) return true;                             // WB13b
      return odd_indicators && now == kRegionalIndicator;                                 // WB15, WB16
    };
    if (p > begin && !joined()) {
      pieces.emplace_back(begin, static_cast<std::size_t>(p - begin));
      begin = p;
    }
    raw = now;
    if (!is_skipped(now) || last == kOther) {
      odd_indicators = now == kRegionalIndicator && !odd_indicators;
      before = last;
      last = is_skipped(now) ? std::uint8_t{kOther} : now;
    }
    p += c.length;
  }
  if (begin < end) pieces.emplace_back(begin, static_cast<std::size_t>(end - begin));
}

}  // namespace stoa::curate
