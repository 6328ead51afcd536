// Regular expressions: of ECMA-262 (the patterns of JSON schemas), with the spellings of Python for the same.
#pragma once

#include <string_view>

#include "constraint/char_automaton.h"

namespace stoa::constraint {

enum class RegexMatch : std::uint8_t {
  kWhole,    // the expression is the whole text
  kAnywhere  // some part of the text, as a schema's `pattern`
};

// ConstraintError: what is wrong or not supported (look-around, back-references, word boundaries), and where.
CharAutomaton parse_regex(std::string_view pattern, RegexMatch match, Budget& budget);

}  // namespace stoa::constraint
