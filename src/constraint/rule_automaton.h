// Automata over bytes and calls of rules: what a rule of a grammar becomes.
#pragma once

#include <string>
#include <vector>

#include "constraint/layout.h"

namespace stoa::constraint {

struct ByteEdge {
  std::uint8_t first = 0, last = 0;
  std::int32_t to = 0;
  friend bool operator==(const ByteEdge&, const ByteEdge&) = default;
};
struct CallEdge {
  std::int32_t rule = 0, to = 0;
  friend bool operator==(const CallEdge&, const CallEdge&) = default;
};

struct RuleAutomaton {
  struct State {
    std::vector<ByteEdge> bytes;  // in a deterministic one ascending and apart
    std::vector<CallEdge> calls;  // in a deterministic one at most one per rule
    std::vector<std::int32_t> empty;
    bool final = false;
  };
  std::vector<State> states;  // 0 is the first

  State& at(std::int32_t state) { return states[static_cast<std::size_t>(state)]; }
  const State& at(std::int32_t state) const { return states[static_cast<std::size_t>(state)]; }
  std::int32_t add(bool final = false) {
    states.push_back({.bytes = {}, .calls = {}, .empty = {}, .final = final});
    return static_cast<std::int32_t>(states.size()) - 1;
  }
};

// A special token is the byte 0xFF, which no text has, and the digits of its id to the base 128.
std::string special_token_bytes(std::int32_t id);

// All rules of a grammar, not deterministic yet. A large repetition becomes rules of its own.
std::vector<RuleAutomaton> lay_out_rules(const Grammar& grammar, Budget& budget);

// Without empty edges, deterministic, equal states merged where no cycle goes through them, states without a
// way to the end removed. The first state is final where the empty text is accepted, and has no edge to it.
RuleAutomaton determinised(const RuleAutomaton& a, Budget& budget);

}  // namespace stoa::constraint
