#include "token/unicode_properties.h"

#include <algorithm>

namespace stoa::token {
namespace {

void expand_runs(std::span<const std::uint32_t> runs, std::vector<std::uint8_t>& out) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t first = runs[i] >> 8, last = i + 1 < runs.size() ? runs[i + 1] >> 8 : out.size();
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(first),
              out.begin() + static_cast<std::ptrdiff_t>(last), static_cast<std::uint8_t>(runs[i] & 0xFF));
  }
}

}  // namespace

UnicodeProperties::UnicodeProperties() : bits_(0x110000), scripts_(0x110000) {
  expand_runs(unicode_property_runs(), bits_);
  expand_runs(unicode_script_runs(), scripts_);
}

}  // namespace stoa::token
