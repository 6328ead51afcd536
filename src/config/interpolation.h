// `${a.b}`, relative `${.a}` and `${..a}`, and `${multiply:a,b}` as in NeMo's files.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "config/node.h"

namespace stoa::config {

// Expands references in one tree. A reference alone in a scalar takes the whole value that it names, with its
// type; inside text it is spliced in. Functions: multiply, add, subtract (of numbers), divide (exact),
// divide_floor, divide_ceil; oc.env (an environment variable, or the value after the comma).
class Interpolator {
 public:
  // `fallback(path)`: the value of a key that the tree does not give (a default), or nullopt; "oc.env:NAME" is
  // asked for an environment variable that is not set.
  using Fallback = std::function<std::optional<Node>(const std::string& path)>;
  explicit Interpolator(const Node& root, Fallback fallback = {});

  // `node`, found at `path` of the tree, with every reference expanded; origins are those of `node`.
  // ConfigError: unknown key, cycle, unknown function, result too large.
  Node expand(const Node& node, const std::string& path);

 private:
  Node expand_scalar(const Node& node, const std::string& path);
  Node evaluate(std::string_view expression, const std::string& path, const Origin& origin);
  Node call(std::string_view name, std::string_view arguments, const std::string& path, const Origin& origin);
  Node environment(std::string_view arguments, const std::string& path, const Origin& origin);
  Node lookup(std::string_view key, const std::string& path, const Origin& origin);

  const Node& root_;
  const Fallback fallback_;
  std::set<std::string> active_;  // keys being expanded, to see cycles
  std::size_t budget_ = 1 << 20;  // bytes and nodes that may still be made
  int depth_ = 0;
};

}  // namespace stoa::config
