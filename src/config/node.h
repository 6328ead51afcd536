// A parsed YAML value that remembers where it was written. A plain value type: copies are deep.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::config {

// Where a value was given. `layer` orders the sources: a file's bases come before it, the command line comes
// last.
struct Origin {
  std::shared_ptr<const std::string> source;  // file name or "command line"
  int line = 0;                               // 1-based; 0: no lines (command line, defaults)
  int layer = 0;

  std::string text() const;  // "run.yaml:12", "command line", or "default"
};

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;  // scalar written in quotes: always text
  std::string scalar;
  std::vector<Node> items;
  std::vector<std::pair<std::string, Node>> entries;  // in the order of the file
  Origin origin;

  // Defined where the type is complete: its members are vectors of itself.
  Node();
  Node(const Node& other);
  Node(Node&& other) noexcept;
  Node& operator=(const Node& other);
  Node& operator=(Node&& other) noexcept;
  ~Node();

  static Node text(std::string value);   // quoted where plain would be read as something else
  static Node plain(std::string value);  // number, boolean, word
  static Node sequence(std::vector<Node> items);
  static Node map();

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_map() const { return kind == Kind::kMap; }

  Node* find(std::string_view key);  // entry of a map, or nullptr
  const Node* find(std::string_view key) const;
  Node* find_path(std::string_view dotted);  // "a.b.c" from here, or nullptr
  const Node* find_path(std::string_view dotted) const;
  // The node at "a.b.c"; maps are made on the way, and what is no map there is replaced by one.
  Node& make_path(std::string_view dotted);
  void erase(std::string_view key);

  // Same value, origins aside.
  bool same_value(const Node& other) const;
  // One line for messages: the scalar, "[…]" or "a mapping", shortened to about 60 bytes.
  std::string summary() const;
};

// "a.b" and "c" -> "a.b.c"; an empty side leaves no dot.
std::string join_path(std::string_view prefix, std::string_view key);
std::vector<std::string> split_path(std::string_view dotted);

// YAML text that parses back to the same node: block mappings, flow sequences.
std::string write_yaml(const Node& node);

// True where a plain (unquoted) scalar would be read as null, a boolean or a number.
bool reads_as_special(std::string_view plain);

}  // namespace stoa::config
