#include "constraint/char_automaton.h"

#include <algorithm>
#include <limits>

#include "constraint/layout.h"

namespace stoa::constraint {
namespace {

using State = CharAutomaton::State;
using Edge = CharAutomaton::Edge;

// A nondeterministic automaton over characters.
struct CharStates final : LayoutTarget {
  struct Out {
    std::vector<std::int32_t> empty, at_begin, at_end;
    std::vector<Edge> edges;
  };
  std::vector<Out> states;

  std::int32_t add_state() override {
    states.emplace_back();
    return static_cast<std::int32_t>(states.size()) - 1;
  }
  void add_empty(std::int32_t from, std::int32_t to) override { at(from).empty.push_back(to); }
  void add_leaf(const Expression& leaf, std::int32_t from, std::int32_t to) override {
    switch (leaf.kind) {
      case Expression::Kind::kBegin:
        return at(from).at_begin.push_back(to);
      case Expression::Kind::kEnd:
        return at(from).at_end.push_back(to);
      case Expression::Kind::kCharacters:
        for (const CodeRange& r : leaf.characters.ranges()) at(from).edges.push_back({r.first, r.last, to});
        return;
      case Expression::Kind::kBytes: {
        const auto text = characters_of(leaf.bytes);
        require<InternalError>(text.has_value(), "a text in an expression is not UTF-8");
        for (std::size_t i = 0; i < text->size(); ++i) {
          const std::int32_t next = i + 1 == text->size() ? to : add_state();
          at(from).edges.push_back({(*text)[i], (*text)[i], next});
          from = next;
        }
        return;
      }
      default:
        fail<InternalError>("an automaton over characters of an expression with rules");
    }
  }
  Out& at(std::int32_t state) { return states[static_cast<std::size_t>(state)]; }

  // Adds what is reached from `set` without text; it stays sorted.
  void close(std::vector<std::int32_t>& set, bool begin, bool end) const {
    std::vector<bool> in(states.size());
    for (const std::int32_t s : set) in[static_cast<std::size_t>(s)] = true;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const Out& out = states[static_cast<std::size_t>(set[i])];
      const auto add = [&](const std::vector<std::int32_t>& targets) {
        for (const std::int32_t t : targets)
          if (!in[static_cast<std::size_t>(t)]) in[static_cast<std::size_t>(t)] = true, set.push_back(t);
      };
      add(out.empty);
      if (begin) add(out.at_begin);
      if (end) add(out.at_end);
    }
    std::sort(set.begin(), set.end());
  }
};

// Calls take(first, last, targets) for ranges of characters with the same targets.
template <class Take>
void for_each_segment(const std::vector<Edge>& edges, Take take) {
  std::vector<char32_t> starts;
  for (const Edge& e : edges) starts.push_back(e.first), starts.push_back(e.last + 1);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<Edge> sorted = edges;
  std::sort(sorted.begin(), sorted.end(), [](const Edge& a, const Edge& b) { return a.first < b.first; });
  std::vector<Edge> open;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    std::erase_if(open, [&](const Edge& e) { return e.last < starts[i]; });
    for (; next < sorted.size() && sorted[next].first == starts[i]; ++next) open.push_back(sorted[next]);
    if (open.empty()) continue;
    std::vector<std::int32_t> targets;
    for (const Edge& e : open) targets.push_back(e.to);
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    take(starts[i], starts[i + 1] - 1, std::move(targets));
  }
}

void add_edge(State& state, char32_t first, char32_t last, std::int32_t to) {
  if (!state.edges.empty() && state.edges.back().to == to && state.edges.back().last + 1 == first)
    state.edges.back().last = last;
  else
    state.edges.push_back({first, last, to});
}

}  // namespace

bool CharAutomaton::accepts_all() const {
  const auto& all = CodeSet::all().ranges();
  return std::all_of(states.begin(), states.end(), [&](const State& s) {
    return s.final && std::ranges::equal(s.edges, all, [](const Edge& e, const CodeRange& r) {
             return e.first == r.first && e.last == r.last;
           });
  });
}

bool CharAutomaton::matches(std::string_view text) const {
  const auto chars = characters_of(text);
  if (!chars) return false;
  std::int32_t at = 0;
  for (const char32_t c : *chars) {
    const auto& edges = states[static_cast<std::size_t>(at)].edges;
    const auto it =
        std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.first <= c && c <= e.last; });
    if (it == edges.end()) return false;
    at = it->to;
  }
  return states[static_cast<std::size_t>(at)].final;
}

void trim(CharAutomaton& a) {
  std::vector<std::vector<std::int32_t>> sources(a.states.size());
  std::vector<std::int32_t> live;
  std::vector<bool> good(a.states.size());
  for (std::size_t s = 0; s < a.states.size(); ++s) {
    for (const Edge& e : a.states[s].edges)
      sources[static_cast<std::size_t>(e.to)].push_back(static_cast<std::int32_t>(s));
    if (a.states[s].final) good[s] = true, live.push_back(static_cast<std::int32_t>(s));
  }
  for (std::size_t i = 0; i < live.size(); ++i)
    for (const std::int32_t s : sources[static_cast<std::size_t>(live[i])])
      if (!good[static_cast<std::size_t>(s)]) good[static_cast<std::size_t>(s)] = true, live.push_back(s);
  std::vector<std::int32_t> number(a.states.size(), -1);
  std::int32_t next = 0;
  good[0] = true;
  for (std::size_t s = 0; s < good.size(); ++s)
    if (good[s]) number[s] = next++;
  std::vector<State> states;
  for (std::size_t s = 0; s < good.size(); ++s) {
    if (!good[s]) continue;
    State state{{}, a.states[s].final};
    for (const Edge& e : a.states[s].edges)
      if (good[static_cast<std::size_t>(e.to)])
        state.edges.push_back({e.first, e.last, number[static_cast<std::size_t>(e.to)]});
    states.push_back(std::move(state));
  }
  if (live.empty()) states.assign(1, {});
  a.states = std::move(states);
}

CharAutomaton automaton_of(const Node& node, Budget& budget) {
  CharStates nfa;
  const std::int32_t start = nfa.add_state(), end = nfa.add_state();
  lay_out(node, start, end, nfa, budget);
  CharAutomaton out;
  std::map<std::vector<std::int32_t>, std::int32_t> known;
  std::vector<std::vector<std::int32_t>> sets;
  const auto number_of = [&](std::vector<std::int32_t> set, bool begin) {
    nfa.close(set, begin, false);
    std::vector<std::int32_t> ended = set;
    nfa.close(ended, begin, true);
    const bool final = std::binary_search(ended.begin(), ended.end(), end);
    // The first state is not met again: assertions hold there that later do not.
    const auto known_as = begin ? known.end() : known.find(set);
    if (known_as != known.end()) return known_as->second;
    budget.spend(1 + static_cast<std::int64_t>(set.size()) / 16);
    const auto number = static_cast<std::int32_t>(sets.size());
    if (!begin) known.emplace(set, number);
    sets.push_back(std::move(set));
    out.states.push_back({{}, final});
    return number;
  };
  number_of({start}, true);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    budget.check_time();
    std::vector<Edge> edges;
    for (const std::int32_t s : sets[i]) {
      const auto& more = nfa.states[static_cast<std::size_t>(s)].edges;
      edges.insert(edges.end(), more.begin(), more.end());
    }
    for_each_segment(edges, [&](char32_t first, char32_t last, std::vector<std::int32_t> targets) {
      const std::int32_t to = number_of(std::move(targets), false);
      add_edge(out.states[i], first, last, to);
    });
  }
  trim(out);
  return out;
}

CharAutomaton any_text() {
  CharAutomaton out;
  out.states.push_back({{}, true});
  for (const CodeRange& r : CodeSet::all().ranges()) out.states[0].edges.push_back({r.first, r.last, 0});
  return out;
}

CharAutomaton one_of(const std::vector<std::vector<char32_t>>& texts, Budget& budget) {
  CharAutomaton out;
  std::vector<std::map<char32_t, std::int32_t>> children(1);
  out.states.emplace_back();
  for (const auto& text : texts) {
    std::int32_t at = 0;
    for (const char32_t c : text) {
      const auto [it, fresh] =
          children[static_cast<std::size_t>(at)].emplace(c, static_cast<std::int32_t>(children.size()));
      const std::int32_t to = it->second;
      if (fresh) {
        budget.spend(1);
        children.emplace_back();
        out.states.emplace_back();
      }
      at = to;
    }
    out.states[static_cast<std::size_t>(at)].final = true;
  }
  for (std::size_t s = 0; s < children.size(); ++s)
    for (const auto& [c, to] : children[s]) out.states[s].edges.push_back({c, c, to});
  return out;
}

CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, Budget& budget) {
  CharAutomaton out;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  const auto number_of = [&](std::int32_t x, std::int32_t y) {
    const auto [it, fresh] = known.emplace(std::pair{x, y}, static_cast<std::int32_t>(pairs.size()));
    if (fresh) {
      budget.spend(1);
      pairs.emplace_back(x, y);
      out.states.push_back(
          {{}, a.states[static_cast<std::size_t>(x)].final && b.states[static_cast<std::size_t>(y)].final});
    }
    return it->second;
  };
  number_of(0, 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& left = a.states[static_cast<std::size_t>(pairs[i].first)].edges;
    const auto& right = b.states[static_cast<std::size_t>(pairs[i].second)].edges;
    for (auto x = left.begin(), y = right.begin(); x != left.end() && y != right.end();) {
      const char32_t first = std::max(x->first, y->first), last = std::min(x->last, y->last);
      if (first <= last) {
        const std::int32_t to = number_of(x->to, y->to);
        add_edge(out.states[i], first, last, to);
      }
      (x->last < y->last ? x : y)++;
    }
  }
  trim(out);
  return out;
}

CharAutomaton complement(const CharAutomaton& a, Budget& budget) {
  budget.spend(std::ssize(a.states));
  CharAutomaton out;
  const auto sink = static_cast<std::int32_t>(a.states.size());
  for (const State& from : a.states) {
    State& state = out.states.emplace_back();
    state.final = !from.final;
    state.edges = from.edges;
    CodeSet covered;
    for (const Edge& e : from.edges) covered.add(e.first, e.last);
    const CodeSet others = covered.complement();
    for (const CodeRange& r : others.ranges()) state.edges.push_back({r.first, r.last, sink});
    std::sort(state.edges.begin(), state.edges.end(),
              [](const Edge& x, const Edge& y) { return x.first < y.first; });
  }
  out.states.push_back({{}, true});
  for (const CodeRange& r : CodeSet::all().ranges())
    out.states.back().edges.push_back({r.first, r.last, sink});
  trim(out);
  return out;
}

CharAutomaton of_length(std::int64_t least, std::int64_t most, Budget& budget) {
  return automaton_of(repeat(characters(CodeSet::all()), least, most), budget);
}

std::int64_t shortest_text(const CharAutomaton& a) {
  std::vector<std::int32_t> level{0};
  std::vector<bool> seen(a.states.size());
  seen[0] = true;
  for (std::int64_t length = 0; !level.empty(); ++length) {
    std::vector<std::int32_t> next;
    for (const std::int32_t s : level) {
      if (a.states[static_cast<std::size_t>(s)].final) return length;
      for (const Edge& e : a.states[static_cast<std::size_t>(s)].edges)
        if (!seen[static_cast<std::size_t>(e.to)])
          seen[static_cast<std::size_t>(e.to)] = true, next.push_back(e.to);
    }
    level = std::move(next);
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::optional<std::int64_t> longest_text(const CharAutomaton& a) {
  // Kahn's order: what is left over is on cycles, or behind them.
  std::vector<std::int32_t> incoming(a.states.size());
  for (const State& s : a.states)
    for (const Edge& e : s.edges) ++incoming[static_cast<std::size_t>(e.to)];
  if (incoming[0] > 0) return std::nullopt;
  std::vector<std::int32_t> order{0};
  std::vector<std::int64_t> length(a.states.size());
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto s = static_cast<std::size_t>(order[i]);
    if (a.states[s].final) longest = std::max(longest, length[s]);
    for (const Edge& e : a.states[s].edges) {
      const auto to = static_cast<std::size_t>(e.to);
      length[to] = std::max(length[to], length[s] + 1);
      if (--incoming[to] == 0) order.push_back(e.to);
    }
  }
  return order.size() == a.states.size() ? std::optional(longest) : std::nullopt;
}

Node expression_of(const CharAutomaton& a, Node (*label)(CodeSet)) {
  Graph graph;
  for (const State& s : a.states) graph.add_node(s.final);
  for (std::size_t s = 0; s < a.states.size(); ++s) {
    std::map<std::int32_t, CodeSet> sets;
    for (const Edge& e : a.states[s].edges) sets[e.to].add(e.first, e.last);
    for (auto& [to, set] : sets)
      if (!set.empty()) graph.edges.push_back({static_cast<std::int32_t>(s), to, label(std::move(set))});
  }
  return way_through(std::move(graph));
}

}  // namespace stoa::constraint
