#include "constraint/layout.h"

namespace stoa::constraint {
namespace {

class Layout {
 public:
  Layout(LayoutTarget& target, Budget& budget) : target_(target), budget_(budget) {}

  void lay(const Expression& e, std::int32_t from, std::int32_t to) {
    switch (e.kind) {
      case Expression::Kind::kNever:
        return;
      case Expression::Kind::kSequence:
        return lay_sequence(e, from, to);
      case Expression::Kind::kChoice:
        for (const Node& part : e.parts) lay(*part, from, to);
        return;
      case Expression::Kind::kRepeat:
        if (!target_.add_repeat(e, from, to)) lay_repeat(e, from, to);
        return;
      case Expression::Kind::kGraph:
        return lay_graph(*e.graph, from, to);
      default:
        return target_.add_leaf(e, from, to);
    }
  }

 private:
  std::int32_t add() {
    budget_.spend(1);
    return target_.add_state();
  }

  void lay_sequence(const Expression& e, std::int32_t from, std::int32_t to) {
    if (e.parts.empty()) return target_.add_empty(from, to);
    for (std::size_t i = 0; i < e.parts.size(); ++i) {
      const std::int32_t next = i + 1 == e.parts.size() ? to : add();
      lay(*e.parts[i], from, next);
      from = next;
    }
  }

  void lay_repeat(const Expression& e, std::int32_t from, std::int32_t to) {
    const Expression& part = *e.parts[0];
    const auto copy = [&] {
      const std::int32_t next = add();
      lay(part, from, next);
      from = next;
    };
    for (std::int64_t i = 0; i < e.least; ++i) copy();
    if (e.most == kUnbounded) {
      const std::int32_t loop = add();
      target_.add_empty(from, loop);
      from = loop;
      copy();
      target_.add_empty(from, loop);
      return target_.add_empty(loop, to);
    }
    for (std::int64_t i = e.least; i < e.most; ++i) {
      target_.add_empty(from, to);
      copy();
    }
    target_.add_empty(from, to);
  }

  void lay_graph(const Graph& graph, std::int32_t from, std::int32_t to) {
    std::vector<std::int32_t> states;
    for (std::size_t i = 0; i < graph.final.size(); ++i) states.push_back(add());
    target_.add_empty(from, states[0]);
    for (const Graph::Edge& edge : graph.edges)
      lay(*edge.label, states[static_cast<std::size_t>(edge.from)],
          states[static_cast<std::size_t>(edge.to)]);
    for (std::size_t i = 0; i < states.size(); ++i)
      if (graph.final[i]) target_.add_empty(states[i], to);
  }

  LayoutTarget& target_;
  Budget& budget_;
};

}  // namespace

void lay_out(const Node& node, std::int32_t from, std::int32_t to, LayoutTarget& target, Budget& budget) {
  Layout(target, budget).lay(*node, from, to);
}

}  // namespace stoa::constraint
