#include "config/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/escape.h"
#include "config/value.h"

namespace stoa::config {

std::string Origin::text() const {
  if (!source) return "default";
  return line > 0 ? fmt::format("{}:{}", *source, line) : *source;
}

Node::Node() = default;
Node::Node(const Node& other) = default;
Node::Node(Node&& other) noexcept = default;
Node& Node::operator=(const Node& other) = default;
Node& Node::operator=(Node&& other) noexcept = default;
Node::~Node() = default;

Node Node::text(std::string value) {
  Node node = plain(std::move(value));
  node.quoted = reads_as_special(node.scalar);
  return node;
}

Node Node::plain(std::string value) {
  Node node;
  node.kind = Kind::kScalar;
  node.scalar = std::move(value);
  return node;
}

Node Node::sequence(std::vector<Node> items) {
  Node node;
  node.kind = Kind::kSequence;
  node.items = std::move(items);
  return node;
}

Node Node::map() {
  Node node;
  node.kind = Kind::kMap;
  return node;
}

const Node* Node::find(std::string_view key) const {
  if (!is_map()) return nullptr;
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.first == key; });
  return it == entries.end() ? nullptr : &it->second;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

const Node* Node::find_path(std::string_view dotted) const {
  const Node* node = this;
  for (const auto& part : split_path(dotted)) {
    if (!(node = node->find(part))) return nullptr;
  }
  return node;
}

Node* Node::find_path(std::string_view dotted) {
  return const_cast<Node*>(std::as_const(*this).find_path(dotted));
}

Node& Node::make_path(std::string_view dotted) {
  Node* node = this;
  for (auto& part : split_path(dotted)) {
    if (!node->is_map()) {
      const Origin kept = node->origin;
      *node = map();
      node->origin = kept;
    }
    Node* next = node->find(part);
    if (!next) next = &node->entries.emplace_back(std::move(part), Node{}).second;
    node = next;
  }
  return *node;
}

void Node::erase(std::string_view key) {
  std::erase_if(entries, [&](const auto& e) { return e.first == key; });
}

bool Node::same_value(const Node& other) const {
  if (kind != other.kind) return false;
  switch (kind) {
    case Kind::kNull:
      return true;
    case Kind::kScalar:
      return scalar == other.scalar;
    case Kind::kSequence:
      return std::equal(items.begin(), items.end(), other.items.begin(), other.items.end(),
                        [](const Node& a, const Node& b) { return a.same_value(b); });
    case Kind::kMap:
      return std::equal(
          entries.begin(), entries.end(), other.entries.begin(), other.entries.end(),
          [](const auto& a, const auto& b) { return a.first == b.first && a.second.same_value(b.second); });
  }
  return false;
}

std::string Node::summary() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kMap:
      return "a mapping";
    case Kind::kScalar: {
      std::string shown = quoted ? "\"" + scalar + "\"" : scalar;
      if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
      return shown;
    }
    case Kind::kSequence: {
      std::string shown = "[";
      for (const auto& item : items) {
        if (shown.size() > 1) shown += ", ";
        if (shown.size() > 50) {
          shown += "...";
          break;
        }
        shown += item.summary();
      }
      return shown + "]";
    }
  }
  return {};
}

std::string join_path(std::string_view prefix, std::string_view key) {
  if (prefix.empty()) return std::string(key);
  if (key.empty()) return std::string(prefix);
  return fmt::format("{}.{}", prefix, key);
}

std::vector<std::string> split_path(std::string_view dotted) {
  std::vector<std::string> parts;
  while (!dotted.empty()) {
    const auto dot = dotted.find('.');
    parts.emplace_back(dotted.substr(0, dot));
    if (dot == std::string_view::npos) break;
    dotted.remove_prefix(dot + 1);
  }
  return parts;
}

bool reads_as_special(std::string_view plain) {
  static constexpr std::array kWords = {"",    "~", "null", "true", "false", "yes",   "no",  "on",
                                        "off", "y", "n",    ".inf", "-.inf", "+.inf", ".nan"};
  std::string lower(plain);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::find(kWords.begin(), kWords.end(), lower) != kWords.end()) return true;
  return looks_like_number(plain);
}

namespace {

bool plain_is_safe(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  if (text.front() == '-' && (text.size() == 1 || text[1] == ' ' || text[1] == '-')) return false;
  if (text.front() == '.' && text.substr(0, 3) == "...") return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-' || c == '+' || c == ' ' ||
           c == '(' || c == ')';
  });
}

std::string quote(std::string_view text) { return '"' + escape_controls(text, "\"\\") + '"'; }

std::string scalar_text(const Node& node) {
  return node.quoted || !plain_is_safe(node.scalar) ? quote(node.scalar) : node.scalar;
}

std::string key_text(std::string_view key) {
  return plain_is_safe(key) && !reads_as_special(key) ? std::string(key) : quote(key);
}

void write_flow(const Node& node, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kScalar:
      out += scalar_text(node);
      return;
    case Node::Kind::kSequence: {
      out += '[';
      bool first = true;
      for (const auto& item : node.items) {
        if (!first) out += ", ";
        first = false;
        write_flow(item, out);
      }
      out += ']';
      return;
    }
    case Node::Kind::kMap: {
      out += '{';
      bool first = true;
      for (const auto& [key, value] : node.entries) {
        if (!first) out += ", ";
        first = false;
        out += key_text(key) + ": ";
        write_flow(value, out);
      }
      out += '}';
      return;
    }
  }
}

void write_block(const Node& node, int indent, std::string& out) {
  for (const auto& [key, value] : node.entries) {
    out.append(static_cast<std::size_t>(indent) * 2, ' ');
    out += key_text(key) + ":";
    if (value.is_map() && !value.entries.empty()) {
      out += '\n';
      write_block(value, indent + 1, out);
    } else {
      out += ' ';
      write_flow(value, out);
      out += '\n';
    }
  }
}

}  // namespace

std::string write_yaml(const Node& node) {
  std::string out;
  if (node.is_map() && !node.entries.empty()) {
    write_block(node, 0, out);
  } else {
    write_flow(node, out);
    out += '\n';
  }
  return out;
}

}  // namespace stoa::config
