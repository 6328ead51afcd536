#include "curate/text/class_table.h"

#include <algorithm>

namespace stoa::curate {

ClassTable::ClassTable(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> runs) {
  std::copy(rows.begin(), rows.end(), bits_);
  std::vector<std::uint8_t> page(256);
  std::size_t run = 0;
  for (char32_t first = 0; first < 0x110000; first += 256) {
    for (char32_t c = first; c < first + 256; ++c) {
      while (run + 1 < runs.size() && runs[run + 1] >> 8 <= c) ++run;
      page[c & 255] = static_cast<std::uint8_t>(runs[run]);
    }
    std::size_t at = 0;  // of an equal page
    while (at < numbers_.size() &&
           !std::equal(page.begin(), page.end(), numbers_.begin() + static_cast<std::ptrdiff_t>(at)))
      at += 256;
    if (at == numbers_.size()) numbers_.insert(numbers_.end(), page.begin(), page.end());
    page_[first >> 8] = static_cast<std::uint16_t>(at >> 8);
  }
}

}  // namespace stoa::curate
