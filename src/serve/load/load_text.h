// Prompts of a wanted length for servers whose tokenizer is not at hand: random words, of which each takes
// about as many tokens as the others.
#pragma once

#include <cstdint>
#include <string>

namespace stoa::serve {

// A pure function of its arguments; texts of different numbers share no beginning.
std::string load_text(std::uint64_t seed, std::int64_t number, std::int64_t words);

}  // namespace stoa::serve
