// Where spaCy's English tokenizer cuts a piece of text without white space: its regular expressions, written
// out.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::curate {

// Bytes that are cut off the beginning; 0: none.
std::size_t english_prefix(std::string_view text);
// Bytes that are cut off the end; 0: none. It is the longest ending that a rule matches, because a search
// finds the leftmost.
std::size_t english_suffix(std::string_view text);
// [begin, end) of the places where a word is cut inside, in order.
void english_infixes(std::string_view text, std::vector<std::pair<std::uint32_t, std::uint32_t>>& found);
// Whether the text is an address that stays whole.
bool is_address(std::string_view text);

// Data (english_word_data.cc): pieces that are no product of the rules, their parts set off by tabs; what is
// cut off after a digit.
std::span<const std::string_view> english_exceptions();
std::span<const std::string_view> english_units();
std::span<const std::string_view> english_currencies();

}  // namespace stoa::curate
