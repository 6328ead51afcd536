#include "constraint/expression.h"

#include <utility>

namespace stoa::constraint {
namespace {

Node make(Expression e) { return std::make_shared<const Expression>(std::move(e)); }

using Kind = Expression::Kind;

}  // namespace

Node never() { return make({.kind = Kind::kNever}); }
Node empty_text() { return make({}); }
Node characters(CodeSet set) {
  return set.empty() ? never() : make({.kind = Kind::kCharacters, .characters = std::move(set)});
}
Node text(std::string_view bytes) {
  return bytes.empty() ? empty_text() : make({.kind = Kind::kBytes, .bytes = std::string(bytes)});
}
Node special_token(std::int32_t id) { return make({.kind = Kind::kToken, .number = id}); }
Node rule(std::int32_t number) { return make({.kind = Kind::kRule, .number = number}); }
Node sequence(std::vector<Node> parts) {
  return parts.size() == 1 ? parts[0] : make({.parts = std::move(parts)});
}
Node choice(std::vector<Node> parts) {
  if (parts.empty()) return never();
  return parts.size() == 1 ? parts[0] : make({.kind = Kind::kChoice, .parts = std::move(parts)});
}
Node repeat(Node part, std::int64_t least, std::int64_t most) {
  if (most == 0) return empty_text();
  if (least == 1 && most == 1) return part;
  return make({.kind = Kind::kRepeat, .least = least, .most = most, .parts = {std::move(part)}});
}
Node optional(Node part) { return repeat(std::move(part), 0, 1); }
Node way_through(Graph graph) {
  return make({.kind = Kind::kGraph, .graph = std::make_shared<const Graph>(std::move(graph))});
}
Node begin_of_text() { return make({.kind = Kind::kBegin}); }
Node end_of_text() { return make({.kind = Kind::kEnd}); }

}  // namespace stoa::constraint
