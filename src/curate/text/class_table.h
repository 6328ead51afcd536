// A few bits for every character: pages of 256 characters, equal ones held once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoa::curate {

class ClassTable {
 public:
  // `rows`: the different sets of bits, at most 256; `runs`: first code point << 8 | number of the row, in
  // ascending order.
  ClassTable(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> runs);
  std::uint32_t classes(char32_t c) const {
    return bits_[numbers_[static_cast<std::size_t>(page_[c >> 8]) << 8 | (c & 255)]];
  }

 private:
  std::uint16_t page_[0x1100] = {};
  std::vector<std::uint8_t> numbers_;  // of rows, 256 characters a page
  std::uint32_t bits_[256] = {};
};

}  // namespace stoa::curate
