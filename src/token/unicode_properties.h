// Properties of characters that single components of tokenizer files need, as Hugging Face tokenizers sees
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "token/unicode.h"

namespace stoa::token {

// Runs of equal properties in ascending order: first code point << 8 | bits.
std::span<const std::uint32_t> unicode_property_runs();
// Runs of equal script: first code point << 8 | number of the script; 0 never cuts.
std::span<const std::uint32_t> unicode_script_runs();
// Characters first..last that an older Oniguruma puts into other classes, and an old character of the same
// classes and length.
struct Substitute {
  char32_t first, last, with;
};
std::span<const Substitute> unicode_substitutes();

class UnicodeProperties {
 public:
  enum Property : std::uint8_t {
    kNumeric = 1,     // Digits
    kMark = 2,        // StripAccents removes it
    kCanonical = 4,   // NFD decomposes it
    kCompatible = 8,  // NFKD decomposes it
    kExtends = 16,    // belongs to the grapheme before it
  };
  UnicodeProperties();
  bool has(char32_t c, Property property) const { return (bits_[c] & property) != 0; }
  std::uint8_t script(char32_t c) const { return scripts_[c]; }

 private:
  std::vector<std::uint8_t> bits_, scripts_;  // one byte per code point
};

}  // namespace stoa::token
