// Deterministic automata over characters: for what expressions cannot say, such as both of two patterns, or
// every text but some.
#pragma once

#include <map>
#include <optional>

#include "constraint/budget.h"
#include "constraint/expression.h"

namespace stoa::constraint {

struct CharAutomaton {
  struct Edge {
    char32_t first = 0, last = 0;
    std::int32_t to = 0;
  };
  struct State {
    std::vector<Edge> edges;  // ascending; a character on none of them leads nowhere
    bool final = false;
  };
  std::vector<State> states;  // 0 is the first; from every other one a final state is reached

  bool empty() const { return states.size() == 1 && !states[0].final; }
  // Whether it is made to accept every text.
  bool accepts_all() const;
  bool matches(std::string_view text) const;
};

// For an expression without rules and special tokens. ConstraintError: beyond the budget.
CharAutomaton automaton_of(const Node& node, Budget& budget);
CharAutomaton any_text();
CharAutomaton one_of(const std::vector<std::vector<char32_t>>& texts, Budget& budget);
CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, Budget& budget);
CharAutomaton complement(const CharAutomaton& a, Budget& budget);
// Texts of `least` to `most` (kUnbounded: any number of) characters.
CharAutomaton of_length(std::int64_t least, std::int64_t most, Budget& budget);
// Characters of the shortest and the longest text; none: without bound. The automaton is not empty.
std::int64_t shortest_text(const CharAutomaton& a);
std::optional<std::int64_t> longest_text(const CharAutomaton& a);

// The automaton as an expression whose labels are `label` of the characters.
Node expression_of(const CharAutomaton& a, Node (*label)(CodeSet));

// Removes states from which no final state is reached.
void trim(CharAutomaton& a);

// The automaton whose states are values that `next` makes of a value and a character of `alphabet` (none: a
// dead end), and `final` accepts. Values are ordered by operator<.
template <class Value, class Next, class Final>
CharAutomaton explore(Value start, std::string_view alphabet, Budget& budget, Next next, Final final) {
  CharAutomaton out;
  std::map<Value, std::int32_t> known;
  std::vector<Value> values;
  const auto number_of = [&](const Value& value) {
    const auto [it, fresh] = known.emplace(value, static_cast<std::int32_t>(values.size()));
    if (fresh) {
      budget.spend(1);
      values.push_back(value);
      out.states.push_back({{}, final(value)});
    }
    return it->second;
  };
  number_of(start);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const char c : alphabet)
      if (const std::optional<Value> to = next(Value(values[i]), c)) {
        const std::int32_t target = number_of(*to);
        const auto code = static_cast<char32_t>(static_cast<unsigned char>(c));
        out.states[i].edges.push_back({code, code, target});
      }
  trim(out);
  return out;
}

}  // namespace stoa::constraint
