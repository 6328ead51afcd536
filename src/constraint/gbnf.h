// Grammars in the form of llama.cpp (GBNF).
#pragma once

#include <string_view>

#include "constraint/budget.h"
#include "constraint/expression.h"

namespace stoa::constraint {

// How a grammar names tokens of the vocabulary.
class TokenNames {
 public:
  virtual ~TokenNames() = default;
  // What reads the token; null: there is none.
  virtual Node by_id(std::int32_t id) const = 0;
  virtual Node by_text(std::string_view text) const = 0;
};

// Rules `name ::= …` of "texts", [classes], ., (groups), alternatives |, repetitions * + ? {m} {m,} {m,n},
// names of rules, tokens <text> and <[id]>, and # comments. The text follows the rule `root`.
// ConstraintError: what is wrong, and where.
Grammar parse_gbnf(std::string_view text, const TokenNames& tokens, Budget& budget);

}  // namespace stoa::constraint
