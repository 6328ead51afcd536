// What a text may be: expressions over characters, and rules that name each other. Every form of constraint
// (grammar, regular expression, schema, choices) becomes these.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/code_set.h"

namespace stoa::constraint {

struct Expression;
struct Graph;
using Node = std::shared_ptr<const Expression>;

struct Expression {
  enum class Kind : std::uint8_t {
    kNever,       // no text
    kCharacters,  // one of `characters`
    kBytes,       // the text `bytes`
    kToken,       // the special token `number`
    kRule,        // what rule `number` says
    kSequence,    // all `parts` in their order; without parts the empty text
    kChoice,      // one of `parts`
    kRepeat,      // parts[0], `least` to `most` times
    kGraph,       // a way through `graph`
    kBegin,       // the empty text at the beginning of the whole text, and
    kEnd          // at its end: in regular expressions alone
  };
  Kind kind = Kind::kSequence;
  CodeSet characters = {};
  std::string bytes = {};
  std::int32_t number = 0;
  std::int64_t least = 0, most = 0;
  std::vector<Node> parts = {};
  std::shared_ptr<const Graph> graph = {};
};

// Ways from node 0 to the final nodes along edges.
struct Graph {
  struct Edge {
    std::int32_t from = 0, to = 0;
    Node label;
  };
  std::vector<bool> final;  // of each node
  std::vector<Edge> edges;

  std::int32_t add_node(bool is_final = false) {
    final.push_back(is_final);
    return static_cast<std::int32_t>(final.size()) - 1;
  }
};

inline constexpr std::int64_t kUnbounded = -1;

Node never();
Node empty_text();
Node characters(CodeSet set);
Node text(std::string_view bytes);
Node special_token(std::int32_t id);
Node rule(std::int32_t number);
Node sequence(std::vector<Node> parts);
Node choice(std::vector<Node> parts);
Node repeat(Node part, std::int64_t least, std::int64_t most = kUnbounded);
Node optional(Node part);
Node way_through(Graph graph);
Node begin_of_text();
Node end_of_text();

struct Rule {
  std::string name;  // for messages
  Node body;
};

struct Grammar {
  std::vector<Rule> rules;
  std::int32_t root = 0;

  std::int32_t add(std::string name, Node body = nullptr) {
    rules.push_back({std::move(name), std::move(body)});
    return static_cast<std::int32_t>(rules.size()) - 1;
  }
};

}  // namespace stoa::constraint
