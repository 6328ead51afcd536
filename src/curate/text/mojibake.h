// Text that was decoded by the wrong code page, found and decoded again, as ftfy 6.3 does it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "curate/text/class_table.h"
#include "token/bert_unicode.h"

namespace stoa::curate {

// Bits of a character, in the order of scripts/make_repair_tables.py: ftfy's categories of characters in
// mojibake, which bytes of UTF-8 it stands for in one of the code pages, and the code pages that have it.
enum RepairClass : std::uint32_t {
  kCommonMark = 1u << 0,
  kBadMark = 1u << 1,
  kLawMark = 1u << 2,
  kCurrencyMark = 1u << 3,
  kStartMark = 1u << 4,
  kEndMark = 1u << 5,
  kNumericMark = 1u << 6,
  kKaomoji = 1u << 7,
  kUpperAccented = 1u << 8,
  kLowerAccented = 1u << 9,
  kUpperCommon = 1u << 10,
  kLowerCommon = 1u << 11,
  kBoxDrawing = 1u << 12,
  kFirstOfTwo = 1u << 13,
  kFirstOfThree = 1u << 14,
  kFirstOfFour = 1u << 15,
  kContinuation = 1u << 16,
  kStrictContinuation = 1u << 17,
  kFirstCodePage = 1u << 18,  // and the nine bits after it
  kReplaced = 1u << 28,       // a control character, or written in another way after a repair
  kMayChangeInNfc = 1u << 29,
};

struct MojibakeOptions {
  bool restore_byte_a0 = true;          // a blank may stand for the byte 0xa0 of a character
  bool replace_lossy_sequences = true;  // U+FFFD and ? may stand for lost bytes: the character becomes U+FFFD
  bool decode_inconsistent_utf8 = true;  // parts of a text, where it cannot be decoded as a whole
  bool fix_c1_controls = true;
};

class Mojibake {
 public:
  Mojibake();
  std::uint32_t classes(char32_t c) const { return table_.classes(c); }
  // Whether characters stand next to each other that hardly do so except in mojibake.
  bool is_bad(std::u32string_view text) const;
  // Decodes until nothing looks wrong any more, or no code page fits.
  void fix(std::u32string& text, const MojibakeOptions& options = {}) const;

 private:
  static constexpr int kCodePages = 10;
  void fix(std::u32string& text, const MojibakeOptions& options, int depth) const;
  bool fix_once(std::u32string& text, const MojibakeOptions& options, int depth) const;
  bool fix_parts(std::u32string& text, int depth) const;
  std::size_t utf8_lookalike(std::u32string_view text, std::size_t at) const;
  std::uint32_t possible_code_pages(std::u32string_view text) const;
  void encode(std::u32string_view text, int code_page, std::string& out) const;

  const ClassTable table_;
  // Characters and their bytes, those from 0x80 on, in the order of the characters.
  std::array<std::vector<std::pair<char16_t, std::uint8_t>>, kCodePages> encoded_;
};

// Built once per process; never changes.
const Mojibake& mojibake();

// Characters of valid UTF-8, to the end of `out`.
void append_decoded(std::string_view text, std::u32string& out);

// UTF-8 as Python decodes it strictly; with `variants`, also the surrogates of CESU-8 and Java's form of 0.
bool decode_strict_utf8(std::string_view bytes, bool variants, std::u32string& out);

// Data (repair_data.cc).
std::span<const std::uint32_t> repair_class_bits();
std::span<const std::uint32_t> repair_class_runs();  // first code point << 8 | number of the class
std::span<const std::uint16_t> code_pages();         // what bytes from 0x80 on stand for, one after another
token::BertMapping ligature_mapping();
token::BertMapping width_mapping();
// Names of character references in capitals, which HTML does not know.
std::span<const std::pair<std::string_view, std::string_view>> shouted_entity_names();

}  // namespace stoa::curate
