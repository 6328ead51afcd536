// `format` of JSON schemas: texts of dates, addresses and the like.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "constraint/char_automaton.h"

namespace stoa::constraint {

// What texts of a format are; null: the format says nothing of texts (int32 and the like). Where a standard
// allows several spellings, the usual one alone. ConstraintError: an unknown format.
std::shared_ptr<const CharAutomaton> texts_of_format(std::string_view format, Budget& budget);
std::vector<std::string_view> known_formats();

}  // namespace stoa::constraint
