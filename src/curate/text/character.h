// Classes of characters as Python, spaCy's English tokenizer and datatrove's filters see them: one table, so
// that a text is decoded once for all rules. The data is fixed (Unicode 14), so that decisions do not depend
// on a system library.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "curate/text/class_table.h"
#include "token/bert_unicode.h"

namespace stoa::curate {

// Bits of a class, in the order of scripts/make_curate_tables.py.
enum CharacterClass : std::uint32_t {
  kSpace = 1u << 0,        // str.isspace(), \s
  kAlphabetic = 1u << 1,   // str.isalpha()
  kPunctuation = 1u << 2,  // category P
  kDecimal = 1u << 3,      // \p{Nd} of the newest Unicode
  kDigit = 1u << 4,        // \d
  kWord = 1u << 5,         // \w
  kLetter = 1u << 6,       // letters that spaCy's rules know, of either case
  kLower = 1u << 7,        // small, or without case
  kUpper = 1u << 8,        // capital, or without case
  kQuote = 1u << 9,
  kPrefix = 1u << 10,              // cut off where a word begins with it
  kSuffix = 1u << 11,              // cut off where a word ends with it
  kInfix = 1u << 12,               // cut out wherever it stands
  kBeforeDot = 1u << 13,           // a dot that ends a word is cut off after it
  kSymbol = 1u << 14,              // datatrove's PUNCTUATION: becomes a space in simplified text
  kTerminal = 1u << 15,            // its TERMINAL_PUNCTUATION
  kNonspacing = 1u << 16,          // category Mn
  kSentenceEnd = 1u << 17,         // of spaCy's sentencizer
  kCased = 1u << 18,               // a sigma before it is not final
  kCaseIgnorable = 1u << 19,       // a sigma looks past it
  kAlphabeticProperty = 1u << 20,  // [[:alpha:]] of Python's regex: marks and letter numbers, too
  kNumeric = 1u << 21,             // str.isnumeric()
  kPythonDigit = 1u << 22,         // str.isdigit()
  kCapital = 1u << 23,             // str.isupper()
  kNoCapital = 1u << 24,           // cased and no capital: small letters and those of titles
  kHan = 1u << 25,                 // \p{Han} of Python's regex, which knows the newest Unicode
  kLetterOrMark = 1u << 26,        // its [\p{L}\p{M}]
  kRegexWord = 1u << 27,           // its \w
};

inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_ascii_alphanumeric(char c) { return is_ascii_letter(c) || is_ascii_digit(c); }
inline char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
std::string lower_ascii(std::string_view text);

struct Character {
  char32_t value;
  std::uint8_t length;  // bytes
};

// The character at `p` < `end` of valid UTF-8.
inline Character read_character(const char* p) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(p[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xe0) return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (first < 0xf0) return {(first & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}
// The character that ends at `p`; one begins before it.
inline Character read_character_before(const char* p) {
  int length = 1;
  while (length < 4 && (static_cast<unsigned char>(p[-length]) & 0xc0) == 0x80) ++length;
  return read_character(p - length);
}

class Characters {
 public:
  Characters();
  std::uint32_t classes(char32_t c) const { return table_.classes(c); }
  std::uint32_t classes(Character c) const { return classes(c.value); }
  bool has(char32_t c, std::uint32_t any) const { return (classes(c) & any) != 0; }
  const token::CodePointMap& lower() const { return lower_; }
  // Canonical decomposition without category Mn; Hangul syllables aside, which decompose() computes.
  const token::CodePointMap& stripped() const { return stripped_; }

 private:
  const ClassTable table_;
  token::CodePointMap lower_, stripped_;
};

// The tables are built once per process and never change.
const Characters& characters();

// Code points of valid UTF-8.
std::size_t count_characters(std::string_view text);

// As Python's str.strip(), lstrip(), rstrip().
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) { return strip_left(strip_right(text)); }

// As Python's str.lower(), to the end of `out`.
void append_lower(std::string_view text, std::string& out);

// Data (character_data.cc).
std::span<const std::uint32_t> character_class_bits();
std::span<const std::uint32_t> character_class_runs();  // first code point << 8 | number of the class
token::BertMapping lower_mapping();
token::BertMapping stripped_mapping();

}  // namespace stoa::curate
