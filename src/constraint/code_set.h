// Sets of characters (Unicode scalar values), and their UTF-8 as sequences of ranges of bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace stoa::constraint {

struct CodeRange {
  char32_t first = 0, last = 0;  // both belong to it
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(std::initializer_list<CodeRange> ranges) {
    for (const CodeRange& r : ranges) add(r.first, r.last);
  }
  // Every character; surrogates are none.
  static const CodeSet& all();

  void add(char32_t first, char32_t last);
  void add(const CodeSet& other) {
    for (const CodeRange& r : other.ranges_) add(r.first, r.last);
  }
  CodeSet complement() const;
  CodeSet intersection(const CodeSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending, with gaps between them.
  const std::vector<CodeRange>& ranges() const { return ranges_; }
  friend bool operator==(const CodeSet&, const CodeSet&) = default;

 private:
  std::vector<CodeRange> ranges_;
};

struct ByteRange {
  std::uint8_t first = 0, last = 0;
};
// The UTF-8 of a range of characters: each sequence is 1 to 4 ranges of bytes, and a text matches at most
// one.
std::vector<std::vector<ByteRange>> utf8_sequences(CodeRange range);

// Ordinary characters: those that JSON strings take as they are and most patterns do not single out: all but
// control characters, quotation mark, backslash and the separators of lines. Tokens of nothing else are most
// of a vocabulary.
const CodeSet& ordinary_characters();
const std::vector<std::vector<ByteRange>>& ordinary_sequences();  // their UTF-8

// The characters of a UTF-8 text; none where it is not UTF-8.
std::optional<std::vector<char32_t>> characters_of(std::string_view text);

}  // namespace stoa::constraint
