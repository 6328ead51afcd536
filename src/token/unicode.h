// Character classes as the split patterns see them, and a UTF-8 reader that takes any bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace stoa::token {

// What a split pattern distinguishes. Newline is \r or \n, Space is the rest of \s; Other is what is in none
// of \s, \p{L}, \p{N}.
enum class CharClass : std::uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3, kNewline = 4 };

// A code point read from UTF-8. A byte that starts no valid sequence is an Other of length 1 (`valid` false):
// so a text that is not UTF-8 is split, encoded and decoded byte for byte.
struct CodePoint {
  char32_t value;
  std::uint8_t length;  // bytes, 1..4
  bool valid;
};

// Reads one code point at `p` < `end`.
CodePoint read_utf8(const char* p, const char* end);
// Reads the code point that ends at `p`, begin < p.
CodePoint read_utf8_before(const char* begin, const char* p);

// Runs of equal class in ascending order: first code point << 8 | class bits (unicode_data.cc).
std::span<const std::uint32_t> unicode_class_runs();

// One byte per code point: 1.1 MB, expanded from the runs on construction (well under a millisecond).
class UnicodeClasses {
 public:
  UnicodeClasses();
  CharClass char_class(char32_t c) const { return static_cast<CharClass>(bits_[c] & 7); }
  CharClass char_class(CodePoint c) const { return c.valid ? char_class(c.value) : CharClass::kOther; }
  bool is_space(CodePoint c) const { return c.valid && (bits_[c.value] & 7) >= 3; }
  bool is_word(CodePoint c) const {
    return c.valid && (bits_[c.value] & 8) != 0;
  }  // \w of an added token's single_word
  bool combines(CodePoint c) const {
    return c.valid && (bits_[c.value] & 16) != 0;
  }  // NFC may join or reorder it
  bool is_barrier(CodePoint c) const {
    return c.valid && (bits_[c.value] & 32) != 0;
  }  // newer than the normalizer
 private:
  std::vector<std::uint8_t> bits_;
};

}  // namespace stoa::token
