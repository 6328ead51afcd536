// Expressions as nondeterministic automata: what their sequences, choices, repetitions and graphs are made
// of.
#pragma once

#include "constraint/budget.h"
#include "constraint/expression.h"

namespace stoa::constraint {

// States and edges that a layout adds.
class LayoutTarget {
 public:
  virtual ~LayoutTarget() = default;
  virtual std::int32_t add_state() = 0;
  virtual void add_empty(std::int32_t from, std::int32_t to) = 0;  // an edge that takes no text
  // kCharacters, kBytes, kToken, kRule, kBegin, kEnd.
  virtual void add_leaf(const Expression& leaf, std::int32_t from, std::int32_t to) = 0;
  // Lays out a repetition by other means than copies; false: it does not.
  virtual bool add_repeat(const Expression&, std::int32_t, std::int32_t) { return false; }
};

// Lays `node` out between two states. Its depth is limited by the parsers.
void lay_out(const Node& node, std::int32_t from, std::int32_t to, LayoutTarget& target, Budget& budget);

}  // namespace stoa::constraint
