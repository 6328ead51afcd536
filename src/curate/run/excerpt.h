// Parts of texts for pages that people read of a run.
#pragma once

#include <cstddef>
#include <string_view>

namespace stoa::curate {

// From `begin` to `end` of a text, or a little more: cut between characters.
std::string_view whole_characters(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace stoa::curate
