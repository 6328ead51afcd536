// Unicode's normal form C with the data of Unicode 14, so that it does not depend on a system library.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stoa::curate {

struct CanonicalPair {
  char32_t composed, first, second;  // second 0: a singleton
  bool composes;                     // whether the two become one again
};

class CanonicalForm {
 public:
  CanonicalForm();
  void compose(std::u32string& text) const;

 private:
  struct Row {
    char32_t first = 0, second = 0;  // 0: no decomposition
    std::uint8_t combining = 0;
  };
  Row& row(char32_t c);
  const Row& row(char32_t c) const { return rows_[static_cast<std::size_t>(page_[c >> 8]) << 8 | (c & 255)]; }
  void decompose(char32_t c, std::u32string& out) const;
  char32_t composite(char32_t first, char32_t second) const;  // 0: none

  std::uint16_t page_[0x1100] = {};
  std::vector<Row> rows_;  // 256 a page; pages without an entry share the first
  struct Composition {
    std::uint64_t parts;
    char32_t composed;
  };
  std::vector<Composition> compositions_;  // in the order of parts
};

// Built once per process; never changes.
const CanonicalForm& canonical_form();

// Data (canonical_data.cc).
std::span<const CanonicalPair> canonical_pairs();
std::span<const std::uint32_t> combining_class_runs();  // first code point << 8 | class

}  // namespace stoa::curate
