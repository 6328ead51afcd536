// Texts in pages that people read of a run.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoa::curate {

// &, <, > and " as entities.
std::string html_escaped(std::string_view text);

// From `begin` to `end` of a text, or a little more: cut between characters.
std::string_view whole_characters(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace stoa::curate
