#include "constraint/rule_automaton.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stoa::constraint {
namespace {

using RuleState = RuleAutomaton::State;

// Copies of a part that a repetition may make; beyond, rules count.
constexpr std::int64_t kMostCopies = 64;

class RuleLayout final : public LayoutTarget {
 public:
  RuleLayout(const Grammar& grammar, Budget& budget) : budget_(budget) {
    for (std::size_t i = 0; i < grammar.rules.size(); ++i) waiting_.push_back(grammar.rules[i].body);
    // Repetitions append rules.
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      require<InternalError>(waiting_[i] != nullptr, "a rule without a body");
      automata_.emplace_back();
      shared_.clear();
      const std::int32_t start = add_state(), end = add_state();
      const Node body = waiting_[i];
      lay_out(body, start, end, *this, budget_);
      automata_.back().at(end).final = true;
    }
  }
  std::vector<RuleAutomaton> take() { return std::move(automata_); }

  std::int32_t add_state() override { return automata_.back().add(); }
  void add_empty(std::int32_t from, std::int32_t to) override {
    automata_.back().at(from).empty.push_back(to);
  }
  void add_leaf(const Expression& leaf, std::int32_t from, std::int32_t to) override {
    switch (leaf.kind) {
      case Expression::Kind::kCharacters:
        for (const CodeRange& range : leaf.characters.ranges())
          for (const auto& sequence : utf8_sequences(range)) add_bytes(sequence, from, to);
        return;
      case Expression::Kind::kBytes:
        return add_text(leaf.bytes, from, to);
      case Expression::Kind::kToken:
        return add_text(special_token_bytes(leaf.number), from, to);
      case Expression::Kind::kRule:
        return automata_.back().at(from).calls.push_back({leaf.number, to});
      default:
        fail<InternalError>("a rule with an assertion");
    }
  }

  bool add_repeat(const Expression& e, std::int32_t from, std::int32_t to) override {
    if (std::max(e.least, e.most) <= kMostCopies) return false;
    Node part = e.parts[0];
    if (part->kind != Expression::Kind::kRule) part = rule(add_rule(part));
    const Node exact = repeated(part, e.least);
    if (e.most == kUnbounded)
      lay_out(sequence({exact, repeat(part, 0)}), from, to, *this, budget_);
    else
      lay_out(sequence({exact, up_to(part, e.most - e.least)}), from, to, *this, budget_);
    return true;
  }

 private:
  std::int32_t add_rule(Node body) {
    waiting_.push_back(std::move(body));
    return static_cast<std::int32_t>(waiting_.size()) - 1;
  }
  // 2^k times `part`, a rule, as a rule that calls one for half of them twice.
  Node power(const Node& part, int k) {
    if (k == 0) return part;
    const auto [it, fresh] = powers_.emplace(std::tuple{part->number, k, false}, 0);
    if (fresh) it->second = add_rule(sequence({power(part, k - 1), power(part, k - 1)}));
    return rule(powers_.at({part->number, k, false}));
  }
  Node repeated(const Node& part, std::int64_t count) {
    std::vector<Node> parts;
    for (int k = 0; count >> k != 0; ++k)
      if ((count >> k & 1) != 0) parts.push_back(power(part, k));
    return sequence(std::move(parts));
  }
  // 0 to `most` times `part`: below the highest power of 2 in `most`, or that power and up to the rest.
  Node up_to(const Node& part, std::int64_t most) {
    if (most == 0) return empty_text();
    int k = 0;
    while (most >> (k + 1) != 0) ++k;
    const std::int64_t high = std::int64_t{1} << k;
    return choice({below(part, k), sequence({power(part, k), up_to(part, most - high)})});
  }
  // Fewer than 2^k times.
  Node below(const Node& part, int k) {
    if (k == 0) return empty_text();
    const auto [it, fresh] = powers_.emplace(std::tuple{part->number, k, true}, 0);
    if (fresh)
      it->second = add_rule(choice({below(part, k - 1), sequence({power(part, k - 1), below(part, k - 1)})}));
    return rule(powers_.at({part->number, k, true}));
  }

  void add_text(std::string_view bytes, std::int32_t from, std::int32_t to) {
    std::vector<ByteRange> sequence;
    for (const char c : bytes)
      sequence.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c)});
    add_bytes(sequence, from, to);
  }
  // Sequences to the same state share their ends.
  void add_bytes(const std::vector<ByteRange>& sequence, std::int32_t from, std::int32_t to) {
    for (std::size_t i = sequence.size(); i-- > 1;) {
      const auto [it, fresh] = shared_.emplace(std::tuple{sequence[i].first, sequence[i].last, to}, 0);
      if (fresh) {
        budget_.spend(1);
        it->second = add_state();
        automata_.back().at(it->second).bytes.push_back({sequence[i].first, sequence[i].last, to});
      }
      to = it->second;
    }
    automata_.back().at(from).bytes.push_back({sequence[0].first, sequence[0].last, to});
  }

  Budget& budget_;
  std::vector<Node> waiting_;  // bodies, by rule
  std::vector<RuleAutomaton> automata_;
  std::map<std::tuple<std::uint8_t, std::uint8_t, std::int32_t>, std::int32_t> shared_;
  std::map<std::tuple<std::int32_t, int, bool>, std::int32_t> powers_;
};

// Merges states that are left by the same edges, from the ends backwards: `order` has the targets of a state
// that is on no cycle before it.
RuleAutomaton merged(const RuleAutomaton& a) {
  const auto n = static_cast<std::int32_t>(a.states.size());
  // Post-order of a depth-first search; edges to states still open close cycles.
  std::vector<std::int32_t> order, target(a.states.size());
  std::vector<std::uint8_t> seen(a.states.size());
  std::vector<std::pair<std::int32_t, std::size_t>> stack{{0, 0}};
  seen[0] = 1;
  const auto successor = [&](std::int32_t s, std::size_t i) -> std::int32_t {
    const RuleState& state = a.at(s);
    if (i < state.bytes.size()) return state.bytes[i].to;
    i -= state.bytes.size();
    return i < state.calls.size() ? state.calls[i].to : -1;
  };
  while (!stack.empty()) {
    auto& [s, i] = stack.back();
    const std::int32_t to = successor(s, i++);
    if (to < 0) {
      order.push_back(s);
      stack.pop_back();
    } else if (seen[static_cast<std::size_t>(to)] == 0) {
      seen[static_cast<std::size_t>(to)] = 1;
      stack.emplace_back(to, 0);
    }
  }
  for (std::int32_t s = 0; s < n; ++s) target[static_cast<std::size_t>(s)] = s;
  std::map<std::vector<std::int32_t>, std::int32_t> known;
  for (const std::int32_t s : order) {
    std::vector<std::int32_t> key{a.at(s).final ? 1 : 0};
    for (const ByteEdge& e : a.at(s).bytes) {
      key.push_back(e.first << 8 | e.last);
      key.push_back(target[static_cast<std::size_t>(e.to)]);
    }
    key.push_back(-1);
    for (const CallEdge& e : a.at(s).calls) {
      key.push_back(e.rule);
      key.push_back(target[static_cast<std::size_t>(e.to)]);
    }
    if (s != 0) target[static_cast<std::size_t>(s)] = known.emplace(std::move(key), s).first->second;
  }
  std::vector<std::int32_t> number(a.states.size(), -1);
  RuleAutomaton out;
  for (std::int32_t s = 0; s < n; ++s)
    if (seen[static_cast<std::size_t>(s)] != 0 && target[static_cast<std::size_t>(s)] == s)
      number[static_cast<std::size_t>(s)] = out.add(a.at(s).final);
  const auto place = [&](std::int32_t s) {
    return number[static_cast<std::size_t>(target[static_cast<std::size_t>(s)])];
  };
  for (std::int32_t s = 0; s < n; ++s) {
    if (number[static_cast<std::size_t>(s)] < 0) continue;
    RuleState& state = out.at(number[static_cast<std::size_t>(s)]);
    for (const ByteEdge& e : a.at(s).bytes) {
      const std::int32_t to = place(e.to);
      if (!state.bytes.empty() && state.bytes.back().to == to && state.bytes.back().last + 1 == e.first)
        state.bytes.back().last = e.last;
      else
        state.bytes.push_back({e.first, e.last, to});
    }
    for (const CallEdge& e : a.at(s).calls) state.calls.push_back({e.rule, place(e.to)});
  }
  return out;
}

void drop_dead_ends(RuleAutomaton& a) {
  std::vector<std::vector<std::int32_t>> sources(a.states.size());
  std::vector<std::int32_t> live;
  std::vector<bool> good(a.states.size());
  for (std::int32_t s = 0; s < std::ssize(a.states); ++s) {
    for (const ByteEdge& e : a.at(s).bytes) sources[static_cast<std::size_t>(e.to)].push_back(s);
    for (const CallEdge& e : a.at(s).calls) sources[static_cast<std::size_t>(e.to)].push_back(s);
    if (a.at(s).final) good[static_cast<std::size_t>(s)] = true, live.push_back(s);
  }
  for (std::size_t i = 0; i < live.size(); ++i)
    for (const std::int32_t s : sources[static_cast<std::size_t>(live[i])])
      if (!good[static_cast<std::size_t>(s)]) good[static_cast<std::size_t>(s)] = true, live.push_back(s);
  for (RuleState& state : a.states) {
    std::erase_if(state.bytes, [&](const ByteEdge& e) { return !good[static_cast<std::size_t>(e.to)]; });
    std::erase_if(state.calls, [&](const CallEdge& e) { return !good[static_cast<std::size_t>(e.to)]; });
  }
}

}  // namespace

std::string special_token_bytes(std::int32_t id) {
  std::string out = "\xFF";
  for (const int shift : {21, 14, 7, 0}) out += static_cast<char>(id >> shift & 127);
  return out;
}

std::vector<RuleAutomaton> lay_out_rules(const Grammar& grammar, Budget& budget) {
  return RuleLayout(grammar, budget).take();
}

RuleAutomaton determinised(const RuleAutomaton& a, Budget& budget) {
  RuleAutomaton out;
  std::map<std::vector<std::int32_t>, std::int32_t> known;
  std::vector<std::vector<std::int32_t>> sets;
  std::vector<std::int32_t> mark(a.states.size(), -1);
  std::int32_t round = 0;
  const auto close = [&](std::vector<std::int32_t>& set) {
    ++round;
    std::erase_if(set, [&](std::int32_t s) {
      return std::exchange(mark[static_cast<std::size_t>(s)], round) == round;
    });
    for (std::size_t i = 0; i < set.size(); ++i)
      for (const std::int32_t t : a.at(set[i]).empty)
        if (std::exchange(mark[static_cast<std::size_t>(t)], round) != round) set.push_back(t);
    // What only leads on without text says nothing of its own.
    std::erase_if(set, [&](std::int32_t s) {
      return a.at(s).bytes.empty() && a.at(s).calls.empty() && !a.at(s).final;
    });
    std::sort(set.begin(), set.end());
  };
  const auto number_of = [&](std::vector<std::int32_t> set, bool first) {
    close(set);
    if (!first) {
      const auto it = known.find(set);
      if (it != known.end()) return it->second;
    }
    budget.spend(1 + static_cast<std::int64_t>(set.size()) / 16);
    const std::int32_t number =
        out.add(std::any_of(set.begin(), set.end(), [&](std::int32_t s) { return a.at(s).final; }));
    if (!first) known.emplace(set, number);
    sets.push_back(std::move(set));
    return number;
  };
  number_of({0}, true);  // not known: no edge leads back to it
  for (std::size_t i = 0; i < sets.size(); ++i) {
    budget.check_time();
    std::map<std::int32_t, std::vector<std::int32_t>> calls;
    std::vector<ByteEdge> edges;
    std::vector<int> starts;
    for (const std::int32_t s : sets[i]) {
      for (const CallEdge& e : a.at(s).calls) calls[e.rule].push_back(e.to);
      for (const ByteEdge& e : a.at(s).bytes) {
        edges.push_back(e);
        starts.push_back(e.first);
        starts.push_back(e.last + 1);
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    for (std::size_t k = 0; k + 1 < starts.size(); ++k) {
      std::vector<std::int32_t> targets;
      for (const ByteEdge& e : edges)
        if (e.first <= starts[k] && starts[k] <= e.last) targets.push_back(e.to);
      if (targets.empty()) continue;
      const std::int32_t to = number_of(std::move(targets), false);
      auto& bytes = out.states[i].bytes;
      if (!bytes.empty() && bytes.back().to == to && bytes.back().last + 1 == starts[k])
        bytes.back().last = static_cast<std::uint8_t>(starts[k + 1] - 1);
      else
        bytes.push_back(
            {static_cast<std::uint8_t>(starts[k]), static_cast<std::uint8_t>(starts[k + 1] - 1), to});
    }
    for (auto& [rule, targets] : calls) {
      const std::int32_t to = number_of(std::move(targets), false);
      out.states[i].calls.push_back({rule, to});
    }
  }
  drop_dead_ends(out);
  return merged(out);
}

}  // namespace stoa::constraint
