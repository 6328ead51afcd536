#include "token/bert_unicode.h"

#include <algorithm>

namespace stoa::token {

CodePointMap::CodePointMap(const BertMapping& mapping) : pages_(256, 0) {
  for (const std::uint64_t pair : mapping.single)
    entry(static_cast<char32_t>(pair >> 32)) = static_cast<char32_t>(pair & 0xffffffff);
  for (const auto& item : mapping.several) {
    entry(item.code) = kSeveral + static_cast<char32_t>(several_.size());
    several_.push_back({item.results[0], item.results[1], item.results[2]});
  }
}

char32_t& CodePointMap::entry(char32_t c) {
  std::uint16_t& page = page_[c >> 8];
  if (page == 0) {
    page = static_cast<std::uint16_t>(pages_.size() >> 8);
    pages_.resize(pages_.size() + 256, 0);
  }
  return pages_[static_cast<std::size_t>(page) << 8 | (c & 255)];
}

BertUnicode::BertUnicode() : bits_(0x110000), stripped_(bert_stripped()), lowered_(bert_lowered()) {
  const auto runs = bert_class_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t first = runs[i] >> 8, last = i + 1 < runs.size() ? runs[i + 1] >> 8 : bits_.size();
    std::fill(bits_.begin() + static_cast<std::ptrdiff_t>(first),
              bits_.begin() + static_cast<std::ptrdiff_t>(last), static_cast<std::uint8_t>(runs[i] & 0xFF));
  }
}

}  // namespace stoa::token
