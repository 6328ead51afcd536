// Words as UAX #29 (Unicode 16) cuts them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stoa::curate {

// Appends the pieces between word boundaries, white space and punctuation included, of valid UTF-8; they
// point into `text`.
void split_at_word_breaks(std::string_view text, std::vector<std::string_view>& pieces);

// Data (word_break_data.cc): first code point << 8 | number of the property | 0x80 for pictographs.
std::span<const std::uint32_t> word_break_runs();

}  // namespace stoa::curate
