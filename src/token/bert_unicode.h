// What BERT's normalizer and pre-tokenizer do to single code points, as Hugging Face tokenizers does it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stoa::token {

// Runs of equal class in ascending order: first code point << 8 | class bits (bert_unicode_data.cc).
std::span<const std::uint32_t> bert_class_runs();
// Code points that become others: one (code << 32 | result), or several, zeros after the last.
struct BertMapping {
  struct Several {
    char32_t code, results[3];
  };
  std::span<const std::uint64_t> single;
  std::span<const Several> several;
};
BertMapping bert_stripped();  // canonical decomposition without nonspacing marks
BertMapping bert_lowered();

// A table of code points: 256 at a time, those without an entry share one page.
class CodePointMap {
 public:
  explicit CodePointMap(const BertMapping& mapping);
  // Calls f(code point) for each that `c` becomes.
  template <class F>
  void apply(char32_t c, F&& f) const {
    const char32_t to = pages_[static_cast<std::size_t>(page_[c >> 8]) << 8 | (c & 255)];
    if (to == 0) return f(c);
    if (to < kSeveral) return f(to);
    for (const char32_t each : several_[to - kSeveral])
      if (each != 0) f(each);
  }

 private:
  static constexpr char32_t kSeveral = 0x110000;
  char32_t& entry(char32_t c);

  std::array<std::uint16_t, 0x1100> page_{};
  std::vector<char32_t> pages_;
  std::vector<std::array<char32_t, 3>> several_;
};

class BertUnicode {
 public:
  enum Class : std::uint8_t {
    kRemoved = 1,  // clean_text drops it
    kSpace = 2,    // clean_text makes it a blank
    kCut = 4,      // white space: words end
    kPunctuation = 8,
    kChinese = 16,
    kMark = 32,  // strip_accents drops it
  };
  BertUnicode();
  std::uint8_t classes(char32_t c) const { return bits_[c]; }
  const CodePointMap& stripped() const { return stripped_; }
  const CodePointMap& lowered() const { return lowered_; }

 private:
  std::vector<std::uint8_t> bits_;  // one byte per code point
  CodePointMap stripped_, lowered_;
};

}  // namespace stoa::token
