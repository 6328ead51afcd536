// A grammar as one automaton whose states read bytes or call rules: what a machine runs.
#pragma once

#include <array>
#include <span>

#include "constraint/rule_automaton.h"

namespace stoa::constraint {

// Immutable. States of all rules are numbered through; every one of them leads to the end of its rule, no
// rule calls itself before it reads a byte, and none accepts the empty text.
class Pushdown {
 public:
  // ConstraintError: beyond the budget, no text at all fits, or rules that begin with each other in a way
  // that cannot be resolved.
  Pushdown(const Grammar& grammar, Budget& budget);

  std::int32_t states() const { return static_cast<std::int32_t>(final_.size()); }
  std::int32_t rules() const { return static_cast<std::int32_t>(starts_.size()); }
  // Rules that the beginning of a rule calls have higher numbers.
  std::int32_t start_of(std::int32_t rule) const { return starts_[static_cast<std::size_t>(rule)]; }
  // The rule that a whole text follows, and whether the empty text does, too.
  std::int32_t root() const { return root_; }
  bool accepts_empty() const { return accepts_empty_; }

  bool final(std::int32_t state) const { return final_[static_cast<std::size_t>(state)]; }
  // Final, and nothing leaves it.
  bool ends(std::int32_t state) const { return final(state) && bytes(state).empty() && calls(state).empty(); }
  std::span<const ByteEdge> bytes(std::int32_t state) const { return part(bytes_, byte_begin_, state); }
  std::span<const CallEdge> calls(std::int32_t state) const { return part(calls_, call_begin_, state); }
  // Where a byte leads; -1: nowhere.
  std::int32_t next(std::int32_t state, std::uint8_t byte) const;

  // Bytes of one class, a range, lead to the same states everywhere.
  int classes() const { return classes_; }
  std::uint8_t class_of(std::uint8_t byte) const { return class_of_[byte]; }
  std::uint8_t byte_of(int byte_class) const { return byte_of_[static_cast<std::size_t>(byte_class)]; }

  // At least so many ordinary characters (see TokenTrie) can be read from here, whichever they are, without
  // leaving the rule; kMostRun at most.
  int run(std::int32_t state) const { return run_[static_cast<std::size_t>(state)]; }
  // Any such number of ordinary characters leads from here to the end of the rule; -1: none is known.
  int run_to_end(std::int32_t state) const { return run_to_end_[static_cast<std::size_t>(state)]; }
  static constexpr int kMostRun = 32;

 private:
  template <class Edge>
  std::span<const Edge> part(const std::vector<Edge>& all, const std::vector<std::int32_t>& begin,
                             std::int32_t state) const {
    const auto s = static_cast<std::size_t>(state);
    return std::span(all).subspan(static_cast<std::size_t>(begin[s]),
                                  static_cast<std::size_t>(begin[s + 1] - begin[s]));
  }
  void flatten(const std::vector<RuleAutomaton>& rules, const std::vector<std::int32_t>& order);
  void find_classes();
  void find_runs(Budget& budget);

  std::vector<std::int32_t> starts_, byte_begin_{0}, call_begin_{0};
  std::vector<ByteEdge> bytes_;
  std::vector<CallEdge> calls_;
  std::vector<bool> final_;
  std::vector<std::int8_t> run_, run_to_end_;
  std::array<std::uint8_t, 256> class_of_{}, byte_of_{};
  int classes_ = 0;
  std::int32_t root_ = 0;
  bool accepts_empty_ = false;
};

}  // namespace stoa::constraint
