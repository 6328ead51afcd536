#include "curate/text/mojibake.h"

#include <algorithm>

#include "curate/html/entities.h"
#include "curate/text/character.h"
#include "data/utf8_scan.h"

namespace stoa::curate {
namespace {

using Text = std::u32string_view;

enum CodePage { kLatin1, kMacRoman = 8 };
constexpr std::uint32_t kAllCodePages = 1023, kSloppyCodePages = 0x7e;  // those of Windows, without gaps
constexpr char kSubstitute = 0x1a;  // what U+FFFD is in a sloppy code page
constexpr int kMostParts = 100;     // parts of parts that are looked into
constexpr char32_t kReplacement = 0xfffd;

constexpr std::uint32_t kAccented = kUpperAccented | kLowerAccented;
constexpr std::uint32_t kAroundBad =
    kAccented | kBoxDrawing | kStartMark | kEndMark | kCurrencyMark | kNumericMark | kLawMark;

struct Neighbours {
  std::uint32_t first, second;
};
// Pairs that are hardly ever meant.
constexpr Neighbours kUnlikely[] = {
    {kAroundBad | kBadMark, kBadMark},
    {kBadMark, kAroundBad},
    {kLowerAccented | kLowerCommon | kBoxDrawing | kEndMark | kCurrencyMark | kNumericMark, kUpperAccented},
    {kBoxDrawing | kEndMark | kCurrencyMark | kNumericMark, kLowerAccented},
    {kLowerAccented | kBoxDrawing | kEndMark, kCurrencyMark},
    {kUpperAccented | kBoxDrawing, kNumericMark | kLawMark},
    {kCurrencyMark | kNumericMark | kBoxDrawing, kStartMark},
    {kBoxDrawing, kKaomoji | kEndMark},
    {kAccented | kCurrencyMark | kNumericMark | kStartMark | kEndMark | kLawMark, kBoxDrawing},
};
constexpr std::uint32_t kSecondOfUnlikely = kAroundBad | kBadMark | kKaomoji;
// What stands second in nearly all that is looked for; so plain letters are soon done with.
constexpr std::uint32_t kSecondOfMost = kSecondOfUnlikely | kCommonMark;

// Pairs of single characters that are mojibake of a certain code page.
struct Pair {
  Text first, second;
};
constexpr Pair kTelling[] = {
    {U"×", U"²³"},
    {U"à", U"²µ¹¼½¾"},
    {U"√", U"±∂†≠®™´≤≥¥µø"},
    {U"≈", U"°¢"},
    {U"в", U"Ђ"},
    {U"Ã", U"\u00a0¡"},
    {U"ā", U"€"},
    {U"ÂÃÎÐ", U"€œŠš¢£Ÿž\u00a0\u00ad®°©·»–—´"},
};
struct Triple {
  Text first, second, third;
};
constexpr Triple kTellingThree[] = {
    {U"‚", U"Ä", U"ìîïòôúùû†°¢π"},
    {U"‚", U"âó", U"àä°ê"},
    {U"β", U"€", U"™\u00a0Ά\u00ad®°"},
};

bool any(Text of, char32_t c) { return of.find(c) != of.npos; }
bool is_small(char32_t c) { return c >= 'a' && c <= 'z'; }
bool is_latin(char32_t c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }

// A text from one of its characters on; beyond its ends there is nothing.
class Around {
 public:
  Around(const Mojibake& table, Text text, std::size_t at) : table_(table), text_(text), at_(at) {}
  bool exists(int by) const {
    const auto i = static_cast<std::ptrdiff_t>(at_) + by;
    return i >= 0 && i < std::ssize(text_);
  }
  char32_t operator[](int by) const {  // 0xffffffff: nothing
    return exists(by) ? text_[static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at_) + by)] : ~char32_t{0};
  }
  std::uint32_t classes(int by) const { return exists(by) ? table_.classes((*this)[by]) : 0; }
  bool is(int by, std::uint32_t classes) const { return (this->classes(by) & classes) != 0; }
  bool is(int by, Text of) const { return any(of, (*this)[by]); }
  bool is_space(int by) const { return exists(by) && characters().has((*this)[by], kSpace); }
  bool is_word(int by) const { return exists(by) && characters().has((*this)[by], kWord); }

 private:
  const Mojibake& table_;
  const Text text_;
  const std::size_t at_;
};

// Whether mojibake is seen around the character, which is no ASCII, and mostly the first one of it.
bool looks_bad(const Around& t) {
  const char32_t c = t[0];
  if (c < 0xa0) return true;
  const std::uint32_t own = t.classes(0), next = t.classes(1);
  if ((next & kSecondOfMost) == 0 && !any(U"ÂÃŒœ", c) && !any(U"Ђў", t[1])) return false;
  if ((next & kSecondOfUnlikely) != 0) {
    for (const Neighbours& pair : kUnlikely)
      if ((own & pair.first) != 0 && (next & pair.second) != 0) return true;
    if ((own & (kLowerCommon | kUpperCommon)) != 0 && (next & kBadMark) != 0 && is_latin(t[-1])) return true;
  }
  if ((own & kUpperAccented) != 0) {
    if ((next & kCurrencyMark) != 0 && t.is_space(-1)) return true;
    if ((next & (kStartMark | kCurrencyMark)) != 0 && is_small(t[-1])) return true;
    if (t[1] == U'°') return true;
  }
  if ((next & kStartMark) != 0 && (own & (kAccented | kBoxDrawing | kCurrencyMark | kEndMark)) != 0 &&
      t.is(2, kNumericMark))
    return true;
  if ((next & kEndMark) != 0 &&
      (own & (kAccented | kCurrencyMark | kNumericMark | kBoxDrawing | kLawMark)) != 0 && t.is(2, kStartMark))
    return true;
  if ((next & (kStartMark | kEndMark)) != 0 && (own & kAccented) != 0 && t.is_word(2)) return true;
  if (any(U"Œœ", c) && t.exists(1) && !is_latin(t[1])) return true;
  for (const Pair& pair : kTelling)
    if (any(pair.first, c) && t.is(1, pair.second)) return true;
  if (any(U"ÂÃÎÐ", c) && (next & (kStartMark | kEndMark)) != 0) return true;
  for (const Triple& triple : kTellingThree)
    if (any(triple.first, c) && t.is(1, triple.second) && t.is(2, triple.third)) return true;
  if (any(U"ØÙ", c) && t.is(2, U"ØÙ")) {  // Arabic
    const auto middle = [&](int by) {
      return t.is(by, kCommonMark | kCurrencyMark | kBadMark | kNumericMark | kStartMark) ||
             t.is(by, U"ŸŠ®°µ»");
    };
    if (middle(1) && middle(3)) return true;
  }
  const auto between = [&](Text letters, Text marks) {
    return any(letters, c) && t.is(2, letters) &&
           (t.is(1, kBadMark | kStartMark | kEndMark | kCurrencyMark) || t.is(1, marks) ||
            (t[1] >= 0x80 && t[1] < 0xa0));
  };
  if (between(U"ВГРС", U"°µ") || between(U"ΒΓΞΟ", U"°")) return true;
  if (c == U'Г' && t[1] == U'ў' && t[2] == U'В' && t[3] == U'Ђ' && t[4] == U'В' && t.exists(5) &&
      t[5] != U'\n' && (is_latin(t[6]) || t[6] == U' '))
    return true;
  if (any(U"ÃÂ", c) && t[1] == U' ' &&
      (!t.exists(-1) || is_small(t[-1]) || (t.is_space(-1) && is_small(t[-2]))))
    return true;
  return c == U'Â' && (t[1] == U' ' || (next & (kStartMark | kEndMark)) != 0) &&
         (is_small(t[-1]) || t.is(-1, U".,?!") || t.is(-1, kEndMark));
}

using Bytes = std::span<const unsigned char>;

bool within(Bytes b, std::size_t at, int first, int last) {
  return at < b.size() && b[at] >= first && b[at] <= last;
}
bool is_byte(Bytes b, std::size_t at, int value) { return within(b, at, value, value); }
bool is_continuation(Bytes b, std::size_t at) { return within(b, at, 0x80, 0xbf); }

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

// Bytes at `at` that are UTF-8 once the blank among them is 0xa0 again; 0: none.
std::size_t altered_sequence(Bytes b, std::size_t at) {
  const auto blank = [&](std::size_t i) { return is_byte(b, at + i, ' '); };
  const auto strict = [&](std::size_t i) {  // neither an ellipsis nor 0xa0 itself
    return is_continuation(b, at + i) && b[at + i] != 0x85 && b[at + i] != 0xa0;
  };
  const auto continued = [&](std::size_t i) { return is_continuation(b, at + i); };
  const int first = b[at];
  if (first == 0xc2 || first == 0xc3 || first == 0xc5 || first == 0xce || first == 0xd0 || first == 0xd9)
    return blank(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xe3)
    return (first >= 0xe2 && blank(1) && strict(2)) || (strict(1) && blank(2)) ? 3 : 0;
  if (first != 0xf0) return 0;
  const bool one = (blank(1) && continued(2) && continued(3)) || (continued(1) && blank(2) && continued(3)) ||
                   (continued(1) && continued(2) && blank(3));
  return one ? 4 : 0;
}

// A lone "à" whose second byte became the blank after it, unless a Portuguese word follows.
bool is_lone_a_grave(Bytes b, std::size_t at) {
  if (!is_byte(b, at, 0xc3) || !is_byte(b, at + 1, ' ')) return false;
  const std::string_view rest(reinterpret_cast<const char*>(b.data()) + at + 2, b.size() - at - 2);
  for (const std::string_view word : {" ", "quele", "quela", "quilo", "s "})
    if (rest.starts_with(word)) return false;
  return true;
}

void restore_no_break_spaces(std::string& text) {
  Bytes b = bytes_of(text);
  bool found = false;
  for (std::size_t i = 0; i < b.size() && !found; ++i) found = b[i] >= 0xc2 && altered_sequence(b, i) != 0;
  if (!found) return;
  std::string out;
  out.reserve(text.size() + 8);
  for (std::size_t i = 0; i < b.size(); ++i) {
    out += text[i];
    if (is_lone_a_grave(b, i)) {
      out += "\xa0 ";
      ++i;
    }
  }
  b = bytes_of(out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t length = b[i] >= 0xc2 ? altered_sequence(b, i) : 0;
    if (length == 0) continue;
    std::replace(out.begin() + static_cast<std::ptrdiff_t>(i),
                 out.begin() + static_cast<std::ptrdiff_t>(i + length), ' ', '\xa0');
    i += length - 1;
  }
  text.swap(out);
}

// Bytes at `at` that were a character of UTF-8, or of CESU-8, before some of them were lost; 0: none.
std::size_t lossy_sequence(Bytes b, std::size_t at) {
  const auto lost = [&](std::size_t i) { return is_byte(b, at + i, kSubstitute); };
  const auto asked = [&](std::size_t i) { return lost(i) || is_byte(b, at + i, '?'); };
  const auto either = [&](std::size_t i) { return lost(i) || is_continuation(b, at + i); };
  const int first = b[at];
  if (first == kSubstitute) return 1;
  if (first < 0xc2) return 0;
  if (first <= 0xdf) return lost(1) || (first <= 0xc3 && asked(1)) ? 2 : 0;
  if (first == 0xed && within(b, at + 1, 0xa0, 0xaf) && is_byte(b, at + 3, 0xed) &&
      within(b, at + 4, 0xb0, 0xbf)) {
    const auto one = [&](std::size_t i) { return asked(i) || is_continuation(b, at + i); };
    if ((asked(2) && one(5)) || (one(2) && asked(5))) return 6;
  }
  if (first <= 0xef) return (asked(1) && either(2)) || (either(1) && asked(2)) ? 3 : 0;
  if (first > 0xf4) return 0;
  const bool some = (asked(1) && either(2) && either(3)) || (either(1) && asked(2) && either(3)) ||
                    (either(1) && either(2) && asked(3));
  return some ? 4 : 0;
}

void replace_lossy_sequences(std::string& text) {
  const Bytes b = bytes_of(text);
  std::string out;
  std::size_t from = 0;
  for (std::size_t i = 0; i < b.size();) {
    const std::size_t length = lossy_sequence(b, i);
    if (length == 0) {
      ++i;
      continue;
    }
    out.append(text, from, i - from);
    out += "\xef\xbf\xbd";
    from = i += length;
  }
  if (from == 0) return;
  out.append(text, from);
  text.swap(out);
}

// Bytes of Java's zero or of a pair of surrogates (CESU-8) at the beginning, and the character; 0: none.
std::size_t variant(Bytes b, char32_t& c) {
  // ftfy's patterns look for a sequence that is cut off at the end, which for them is also before a last line
  // end: there it takes the line end for the missing byte.
  const bool line_end_follows = b.size() == (b[0] == 0xed ? 6U : 2U) && b.back() == '\n';
  if (b[0] == 0xc0) {
    c = 0;
    return is_byte(b, 1, 0x80) || line_end_follows ? 2 : 0;
  }
  if (b[0] != 0xed || !within(b, 1, 0xa0, 0xaf) || !is_continuation(b, 2) || !is_byte(b, 3, 0xed) ||
      !within(b, 4, 0xb0, 0xbf) || !(is_continuation(b, 5) || line_end_follows))
    return 0;
  c = 0x10000 + ((b[1] & 0x0fu) << 16) + ((b[2] & 0x3fu) << 10) + ((b[4] & 0x0fu) << 6) + (b[5] & 0x3fu);
  return 6;
}

}  // namespace

void append_decoded(std::string_view text, std::u32string& out) {
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const Character c = read_character(p);
    out += c.value;
    p += c.length;
  }
}

bool decode_strict_utf8(std::string_view bytes, bool variants, std::u32string& out) {
  out.clear();
  for (;;) {
    const std::size_t valid = data::scan_utf8(bytes).valid;
    append_decoded(bytes.substr(0, valid), out);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return true;
    char32_t c = 0;
    const std::size_t length = variants ? variant(bytes_of(bytes), c) : 0;
    if (length == 0) return false;
    out += c;
    bytes.remove_prefix(length);
  }
}

Mojibake::Mojibake() : table_(repair_class_bits(), repair_class_runs()) {
  const auto pages = code_pages();
  for (std::size_t p = 0; p < kCodePages; ++p) {
    for (std::size_t b = 0; b < 128; ++b)
      encoded_[p].emplace_back(static_cast<char16_t>(pages[p * 128 + b]), static_cast<std::uint8_t>(128 + b));
    std::sort(encoded_[p].begin(), encoded_[p].end());
  }
}

bool Mojibake::is_bad(std::u32string_view text) const {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] >= 0x80 && looks_bad(Around(*this, text, i))) return true;
  return false;
}

std::uint32_t Mojibake::possible_code_pages(std::u32string_view text) const {
  std::uint32_t pages = kAllCodePages;
  for (const char32_t c : text) pages &= classes(c) / kFirstCodePage;
  return pages;
}

void Mojibake::encode(std::u32string_view text, int code_page, std::string& out) const {
  out.clear();
  const auto& bytes = encoded_[static_cast<std::size_t>(code_page)];
  for (const char32_t c : text) {
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    const auto found = std::lower_bound(bytes.begin(), bytes.end(),
                                        std::pair<char16_t, std::uint8_t>(static_cast<char16_t>(c), 0));
    const bool has = found != bytes.end() && found->first == c;
    out += has ? static_cast<char>(found->second) : kSubstitute;  // U+FFFD alone has no byte of its own
  }
}

// Characters at `at` that look like whole characters of UTF-8.
std::size_t Mojibake::utf8_lookalike(std::u32string_view text, std::size_t at) const {
  if (at > 0 && (classes(text[at - 1]) & kStrictContinuation) != 0) return 0;
  std::size_t end = at;
  const auto continues = [&](std::uint32_t first, std::size_t more) {
    if (end + more >= text.size() || (classes(text[end]) & first) == 0) return false;
    for (std::size_t i = 1; i <= more; ++i)
      if ((classes(text[end + i]) & kContinuation) == 0) return false;
    end += 1 + more;
    return true;
  };
  while (continues(kFirstOfTwo, 1) || continues(kFirstOfThree, 2) || continues(kFirstOfFour, 3)) {
  }
  return end - at;
}

bool Mojibake::fix_parts(std::u32string& text, int depth) const {
  if (depth >= kMostParts) return false;
  std::u32string out;
  bool changed = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_lookalike(text, i);
    if (length == 0) {
      out += text[i++];
      continue;
    }
    std::u32string part = text.substr(i, length);
    if (length < text.size() && is_bad(part)) {
      fix(part, {}, depth + 1);
      changed = changed || part != std::u32string_view(text).substr(i, length);
    }
    out += part;
    i += length;
  }
  if (changed) text.swap(out);
  return changed;
}

// Returns whether the text has changed.
bool Mojibake::fix_once(std::u32string& text, const MojibakeOptions& options, int depth) const {
  if (!is_bad(text)) return false;
  const std::uint32_t pages = possible_code_pages(text);
  std::string bytes;
  std::u32string decoded;
  for (int page = 0; page < kCodePages; ++page) {
    if ((pages >> page & 1) == 0) continue;
    encode(text, page, bytes);
    if (options.restore_byte_a0 && page != kMacRoman) restore_no_break_spaces(bytes);
    if (options.replace_lossy_sequences && (kSloppyCodePages >> page & 1) != 0)
      replace_lossy_sequences(bytes);
    const bool variants = bytes.find_first_of("\xed\xc0") != bytes.npos;
    if (decode_strict_utf8(bytes, variants, decoded)) {
      const bool changed = decoded != text;
      text.swap(decoded);
      return changed;
    }
  }
  if (options.decode_inconsistent_utf8 && fix_parts(text, depth)) return true;
  const auto is_control = [](char32_t c) { return c >= 0x80 && c < 0xa0; };
  const auto is_unassigned = [&](char32_t c) { return is_control(c) && windows_1252(c) == c; };
  const bool has_controls = std::any_of(text.begin(), text.end(), is_control);
  const bool latin_1 = (pages >> kLatin1 & 1) != 0 && std::none_of(text.begin(), text.end(), is_unassigned);
  if (!has_controls || !(latin_1 || options.fix_c1_controls)) return false;
  for (char32_t& c : text)
    if (is_control(c)) c = windows_1252(c);
  return true;
}

void Mojibake::fix(std::u32string& text, const MojibakeOptions& options, int depth) const {
  std::u32string before;
  do before = text;
  while (fix_once(text, options, depth) && text != before);
}

void Mojibake::fix(std::u32string& text, const MojibakeOptions& options) const { fix(text, options, 0); }

const Mojibake& mojibake() {
  static const Mojibake table;
  return table;
}

}  // namespace stoa::curate
