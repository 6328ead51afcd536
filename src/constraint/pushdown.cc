#include "constraint/pushdown.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::constraint {
namespace {

// Rules that accept the empty text.
std::vector<bool> nullable_rules(const std::vector<RuleAutomaton>& rules) {
  std::vector<bool> nullable(rules.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      if (nullable[r]) continue;
      const RuleAutomaton& a = rules[r];
      std::vector<std::int32_t> reached{0};
      std::vector<bool> seen(a.states.size());
      seen[0] = true;
      for (std::size_t i = 0; i < reached.size(); ++i) {
        const auto& state = a.at(reached[i]);
        if (state.final) {
          nullable[r] = more = true;
          break;
        }
        const auto add = [&](std::int32_t to) {
          if (!seen[static_cast<std::size_t>(to)])
            seen[static_cast<std::size_t>(to)] = true, reached.push_back(to);
        };
        for (const std::int32_t to : state.empty) add(to);
        for (const CallEdge& e : state.calls)
          if (nullable[static_cast<std::size_t>(e.rule)]) add(e.to);
      }
    }
  }
  return nullable;
}

// Removes calls of rules that no text ends.
void drop_endless(std::vector<RuleAutomaton>& rules, Budget& budget) {
  std::vector<bool> ends(rules.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      if (ends[r]) continue;
      const RuleAutomaton& a = rules[r];
      std::vector<std::int32_t> reached{0};
      std::vector<bool> seen(a.states.size());
      seen[0] = true;
      for (std::size_t i = 0; i < reached.size(); ++i) {
        const auto& state = a.at(reached[i]);
        if (state.final) {
          ends[r] = more = true;
          break;
        }
        const auto add = [&](std::int32_t to) {
          if (!seen[static_cast<std::size_t>(to)])
            seen[static_cast<std::size_t>(to)] = true, reached.push_back(to);
        };
        for (const ByteEdge& e : state.bytes) add(e.to);
        for (const CallEdge& e : state.calls)
          if (ends[static_cast<std::size_t>(e.rule)]) add(e.to);
      }
    }
  }
  for (RuleAutomaton& a : rules) {
    bool dropped = false;
    for (auto& state : a.states)
      dropped |= std::erase_if(state.calls, [&](const CallEdge& e) {
                   return !ends[static_cast<std::size_t>(e.rule)];
                 }) > 0;
    if (dropped) a = determinised(a, budget);
  }
}

// Groups of rules whose beginnings call each other, every group before those that call it (Tarjan 1972).
class LeftCalls {
 public:
  explicit LeftCalls(const std::vector<RuleAutomaton>& rules)
      : rules_(rules), index_(rules.size(), -1), low_(rules.size()), group_of_(rules.size(), -1) {
    for (std::int32_t r = 0; r < std::ssize(rules); ++r)
      if (at(index_, r) < 0) visit(r);
  }
  std::vector<std::vector<std::int32_t>> groups;

 private:
  template <class T>
  static T& at(std::vector<T>& values, std::int32_t r) {
    return values[static_cast<std::size_t>(r)];
  }
  // Without recursion: chains of rules may be long.
  void visit(std::int32_t first) {
    std::vector<std::pair<std::int32_t, std::size_t>> open{{first, 0}};
    enter(first);
    while (!open.empty()) {
      auto& [r, i] = open.back();
      const auto& calls = rules_[static_cast<std::size_t>(r)].at(0).calls;
      if (i < calls.size()) {
        const std::int32_t to = calls[i++].rule;
        if (at(index_, to) < 0) {
          enter(to);
          open.emplace_back(to, 0);
        } else if (at(group_of_, to) < 0) {
          at(low_, r) = std::min(at(low_, r), at(index_, to));
        }
        continue;
      }
      const std::int32_t done = r;
      open.pop_back();
      if (!open.empty()) at(low_, open.back().first) = std::min(at(low_, open.back().first), at(low_, done));
      if (at(low_, done) != at(index_, done)) continue;
      auto& group = groups.emplace_back();
      std::int32_t member = -1;
      do {
        member = stack_.back();
        stack_.pop_back();
        at(group_of_, member) = static_cast<std::int32_t>(groups.size()) - 1;
        group.push_back(member);
      } while (member != done);
    }
  }
  void enter(std::int32_t r) {
    at(index_, r) = at(low_, r) = next_++;
    stack_.push_back(r);
  }

  const std::vector<RuleAutomaton>& rules_;
  std::vector<std::int32_t> index_, low_, group_of_, stack_;
  std::int32_t next_ = 0;
};

// Puts a copy of `called` in the place of the first state's call that leads to `to`.
void insert_copy(RuleAutomaton& a, const RuleAutomaton& called, std::int32_t to, Budget& budget) {
  budget.spend(std::ssize(called.states));
  const auto shift = static_cast<std::int32_t>(a.states.size());
  for (auto state : called.states) {
    for (ByteEdge& e : state.bytes) e.to += shift;
    for (CallEdge& e : state.calls) e.to += shift;
    if (std::exchange(state.final, false)) state.empty.push_back(to);
    a.states.push_back(std::move(state));
  }
  a.at(0).empty.push_back(shift);
}

// Takes the call of `rule` off the first state, and returns where it led; -1: it has none.
std::int32_t take_call(RuleAutomaton& a, std::int32_t rule) {
  auto& calls = a.at(0).calls;
  const auto it = std::find_if(calls.begin(), calls.end(), [&](const CallEdge& e) { return e.rule == rule; });
  if (it == calls.end()) return -1;
  const std::int32_t to = it->to;
  calls.erase(it);
  return to;
}

// Rewrites rules whose beginnings call each other (Paull's way): A = A x | y becomes A = y x*.
void resolve_left_recursion(std::vector<RuleAutomaton>& rules, const std::vector<std::int32_t>& group,
                            Budget& budget) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    RuleAutomaton& a = rules[static_cast<std::size_t>(group[i])];
    for (std::size_t j = 0; j < i; ++j) {
      const std::int32_t to = take_call(a, group[j]);
      if (to < 0) continue;
      insert_copy(a, rules[static_cast<std::size_t>(group[j])], to, budget);
      a = determinised(a, budget);
    }
    const std::int32_t to = take_call(a, group[i]);
    if (to < 0) continue;
    for (std::size_t s = 0; s < a.states.size(); ++s)
      if (a.states[s].final) a.states[s].empty.push_back(to);
    a = determinised(a, budget);
  }
}

}  // namespace

Pushdown::Pushdown(const Grammar& grammar, Budget& budget) {
  std::vector<RuleAutomaton> rules = lay_out_rules(grammar, budget);
  const std::vector<bool> nullable = nullable_rules(rules);
  for (RuleAutomaton& a : rules) {
    for (auto& state : a.states)
      for (const CallEdge& e : state.calls)
        if (nullable[static_cast<std::size_t>(e.rule)]) state.empty.push_back(e.to);
    a = determinised(a, budget);
    a.at(0).final = false;
  }
  accepts_empty_ = nullable[static_cast<std::size_t>(grammar.root)];
  // A rule of its own for the whole text: its end is met by nothing else.
  const auto root = static_cast<std::int32_t>(rules.size());
  RuleAutomaton& whole = rules.emplace_back();
  whole.add();
  whole.add(true);
  whole.at(0).calls.push_back({grammar.root, 1});
  drop_endless(rules, budget);
  require<ConstraintError>(accepts_empty_ || !rules.back().at(0).calls.empty(),
                           "the constraint allows no text at all");
  for (const auto& group : LeftCalls(rules).groups) resolve_left_recursion(rules, group, budget);
  drop_endless(rules, budget);  // of A = A x nothing is left
  std::vector<std::int32_t> order;
  LeftCalls calls(rules);
  std::reverse(calls.groups.begin(), calls.groups.end());
  for (const auto& group : calls.groups) {
    const auto& start = rules[static_cast<std::size_t>(group[0])].at(0).calls;
    const bool itself =
        std::any_of(start.begin(), start.end(), [&](const CallEdge& e) { return e.rule == group[0]; });
    require<ConstraintError>(group.size() == 1 && !itself,
                             "rules of the grammar begin with each other without end");
    order.push_back(group[0]);
  }
  flatten(rules, order);
  root_ = static_cast<std::int32_t>(std::find(order.begin(), order.end(), root) - order.begin());
  find_classes();
  find_runs(budget);
}

void Pushdown::flatten(const std::vector<RuleAutomaton>& rules, const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  std::int32_t shift = 0;
  for (const std::int32_t r : order) {
    const RuleAutomaton& a = rules[static_cast<std::size_t>(r)];
    starts_.push_back(shift);
    for (const auto& state : a.states) {
      for (ByteEdge e : state.bytes) e.to += shift, bytes_.push_back(e);
      for (const CallEdge& e : state.calls)
        calls_.push_back({place[static_cast<std::size_t>(e.rule)], e.to + shift});
      byte_begin_.push_back(static_cast<std::int32_t>(bytes_.size()));
      call_begin_.push_back(static_cast<std::int32_t>(calls_.size()));
      final_.push_back(state.final);
    }
    shift += static_cast<std::int32_t>(a.states.size());
  }
}

std::int32_t Pushdown::next(std::int32_t state, std::uint8_t byte) const {
  const auto edges = bytes(state);
  const auto it =
      std::partition_point(edges.begin(), edges.end(), [&](const ByteEdge& e) { return e.last < byte; });
  return it != edges.end() && it->first <= byte ? it->to : -1;
}

void Pushdown::find_classes() {
  std::array<bool, 257> starts{};
  for (const ByteEdge& e : bytes_) starts[e.first] = starts[e.last + std::size_t{1}] = true;
  starts[0] = true;
  for (std::size_t b = 0; b < 256; ++b) {
    if (starts[b]) byte_of_[static_cast<std::size_t>(classes_++)] = static_cast<std::uint8_t>(b);
    class_of_[b] = static_cast<std::uint8_t>(classes_ - 1);
  }
}

void Pushdown::find_runs(Budget& budget) {
  const auto n = static_cast<std::size_t>(states());
  run_.assign(n, 0);
  run_to_end_.assign(n, -1);
  // Where one ordinary character leads, for states that take all of them by bytes.
  std::vector<std::vector<std::int32_t>> landings(n);
  const auto& sequences = ordinary_sequences();
  std::vector<std::int32_t> level, after;
  for (std::int32_t s = 0; s < states(); ++s) {
    if (bytes(s).empty()) continue;
    auto& out = landings[static_cast<std::size_t>(s)];
    bool all = true;
    for (const auto& sequence : sequences) {
      level.assign(1, s);
      for (const ByteRange& range : sequence) {
        after.clear();
        for (const std::int32_t at : level) {
          int next_byte = range.first;
          for (const ByteEdge& e : bytes(at)) {
            if (e.last < next_byte) continue;
            if (e.first > next_byte || next_byte > range.last) break;
            if (std::find(after.begin(), after.end(), e.to) == after.end()) after.push_back(e.to);
            next_byte = e.last + 1;
          }
          if (next_byte <= range.last) {
            all = false;
            break;
          }
        }
        if (!all) break;
        std::swap(level, after);
      }
      if (!all) break;
      for (const std::int32_t to : level)
        if (std::find(out.begin(), out.end(), to) == out.end()) out.push_back(to);
    }
    if (!all) out.clear();
    budget.check_time();
  }
  for (std::size_t s = 0; s < n; ++s)
    if (final_[s]) run_to_end_[s] = 0;
  // Each round is sound by itself, so none has to be the last.
  for (int round = 0; round < kMostRun; ++round) {
    bool changed = false;
    for (std::size_t s = n; s-- > 0;) {
      int run = run_[s], to_end = run_to_end_[s];
      if (!landings[s].empty()) {
        int least = kMostRun, same = run_to_end_[static_cast<std::size_t>(landings[s][0])];
        for (const std::int32_t to : landings[s]) {
          least = std::min<int>(least, run_[static_cast<std::size_t>(to)]);
          if (run_to_end_[static_cast<std::size_t>(to)] != same) same = -1;
        }
        run = std::max(run, std::min(kMostRun, least + 1));
        if (!final_[s] && same >= 0) to_end = std::max(to_end, std::min(kMostRun, same + 1));
      }
      for (const CallEdge& e : calls(static_cast<std::int32_t>(s))) {
        const auto start = static_cast<std::size_t>(start_of(e.rule));
        const auto to = static_cast<std::size_t>(e.to);
        run = std::max<int>(run, run_[start]);
        if (run_to_end_[start] < 0) continue;
        run = std::max(run, std::min(kMostRun, run_to_end_[start] + run_[to]));
        if (!final_[s] && run_to_end_[to] >= 0)
          to_end = std::max(to_end, run_to_end_[start] + run_to_end_[to]);
      }
      // A longer way to the end than a run counts is of no use, and would not be exact.
      if (to_end > kMostRun) to_end = run_to_end_[s];
      changed |= run != run_[s] || to_end != run_to_end_[s];
      run_[s] = static_cast<std::int8_t>(run);
      run_to_end_[s] = static_cast<std::int8_t>(to_end);
    }
    if (!changed) break;
  }
}

}  // namespace stoa::constraint
