#include "config/interpolation.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "config/value.h"

namespace stoa::config {
namespace {

constexpr int kMaxDepth = 64;

// Index just past the "}" that closes the "${" at `open`, or npos.
std::size_t closing(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      ++depth;
      ++i;
    } else if (text[i] == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// Commas outside "${…}".
std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.push_back(trim(text.substr(begin)));
  return parts;
}

struct Number {
  std::int64_t integer = 0;
  double real = 0;
  bool exact = true;
};

Number number_of(const Node& node, std::string_view function) {
  if (node.is_scalar()) {
    if (const auto integer = parse_integer(node.scalar))
      return {*integer, static_cast<double>(*integer), true};
    if (const auto real = parse_real(node.scalar)) return {0, *real, false};
  }
  fail<ConfigError>("{}: ${{{}:…}} needs numbers, found {}", node.origin.text(), function, node.summary());
}

}  // namespace

Interpolator::Interpolator(const Node& root, Fallback fallback)
    : root_(root), fallback_(std::move(fallback)) {}

Node Interpolator::expand(const Node& node, const std::string& path) {
  require<ConfigError>(budget_ > 0, "{}: references expand to too much", node.origin.text());
  --budget_;
  if (node.is_scalar()) return expand_scalar(node, path);
  Node result = node;
  for (auto& item : result.items) item = expand(item, path);
  for (auto& [key, value] : result.entries) value = expand(value, join_path(path, key));
  return result;
}

Node Interpolator::expand_scalar(const Node& node, const std::string& path) {
  const std::string_view text = node.scalar;
  std::size_t open = text.find("${");
  if (open == std::string_view::npos) return node;
  if (open == 0 && closing(text, 0) == text.size()) {
    Node value = evaluate(text.substr(2, text.size() - 3), path, node.origin);
    value.origin = node.origin;
    return value;
  }
  std::string out;
  std::size_t begin = 0;
  while (open != std::string_view::npos) {
    const std::size_t end = closing(text, open);
    require<ConfigError>(end != std::string_view::npos, "{}: {}: '${{' without its '}}' in {}",
                         node.origin.text(), path, node.summary());
    out += text.substr(begin, open - begin);
    const Node value = evaluate(text.substr(open + 2, end - open - 3), path, node.origin);
    require<ConfigError>(value.is_scalar() || value.is_null(),
                         "{}: {}: ${{{}}} is {}, which cannot stand inside text", node.origin.text(), path,
                         text.substr(open + 2, end - open - 3), value.summary());
    out += value.is_null() ? "null" : value.scalar;
    require<ConfigError>(out.size() < budget_, "{}: {}: references expand to too much", node.origin.text(),
                         path);
    begin = end;
    open = text.find("${", begin);
  }
  out += text.substr(begin);
  budget_ -= std::min(budget_, out.size());
  Node result = Node::plain(std::move(out));
  result.quoted = node.quoted;
  result.origin = node.origin;
  return result;
}

Node Interpolator::evaluate(std::string_view expression, const std::string& path, const Origin& origin) {
  require<ConfigError>(++depth_ <= kMaxDepth, "{}: {}: references nested deeper than {}", origin.text(), path,
                       kMaxDepth);
  const auto colon = expression.find(':');
  const auto inner = expression.find("${");
  Node value;
  if (colon != std::string_view::npos && (inner == std::string_view::npos || colon < inner)) {
    value = call(trim(expression.substr(0, colon)), expression.substr(colon + 1), path, origin);
  } else {
    value = lookup(trim(expression), path, origin);
  }
  --depth_;
  return value;
}

Node Interpolator::call(std::string_view name, std::string_view arguments, const std::string& path,
                        const Origin& origin) {
  if (name == "oc.env") return environment(arguments, path, origin);
  const bool known = name == "multiply" || name == "add" || name == "sum" || name == "subtract" ||
                     name == "divide" || name == "divide_floor" || name == "divide_ceil";
  require<ConfigError>(
      known,
      "{}: {}: unknown function '{}' in ${{{}:…}}; known are multiply, add, sum, subtract, divide, "
      "divide_floor, divide_ceil, oc.env",
      origin.text(), path, name, name);
  std::vector<Number> values;
  for (const auto& argument : split_arguments(arguments)) {
    Node node = Node::plain(std::string(argument));
    node.origin = origin;
    values.push_back(number_of(expand_scalar(node, path), name));
  }
  require<ConfigError>(values.size() >= 2, "{}: {}: ${{{}:…}} needs two numbers", origin.text(), path, name);
  Number total = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Number& v = values[i];
    const bool division = name.substr(0, 6) == "divide";
    require<ConfigError>(!division || v.real != 0, "{}: {}: division by zero in ${{{}:{}}}", origin.text(),
                         path, name, arguments);
    const bool exact = total.exact && v.exact;
    std::int64_t integer = 0;
    bool overflow = false;
    double real = 0;
    if (name == "multiply") {
      overflow = __builtin_mul_overflow(total.integer, v.integer, &integer);
      real = total.real * v.real;
    } else if (name == "add" || name == "sum") {
      overflow = __builtin_add_overflow(total.integer, v.integer, &integer);
      real = total.real + v.real;
    } else if (name == "subtract") {
      overflow = __builtin_sub_overflow(total.integer, v.integer, &integer);
      real = total.real - v.real;
    } else {
      real = total.real / v.real;
      if (name == "divide_floor") real = std::floor(real);
      if (name == "divide_ceil") real = std::ceil(real);
      // Past 2^53 a quotient through doubles would be inexact: kept real, which an integer field refuses.
      overflow = std::abs(real) > 9007199254740992.0 || std::trunc(real) != real;
      if (exact && !overflow) integer = static_cast<std::int64_t>(real);
    }
    require<ConfigError>(std::isfinite(real), "{}: {}: ${{{}:{}}} is not finite", origin.text(), path, name,
                         arguments);
    total = {exact && !overflow ? integer : 0, real, exact && !overflow};
  }
  Node result = Node::plain(total.exact ? std::to_string(total.integer) : print_real(total.real));
  result.origin = origin;
  return result;
}

Node Interpolator::environment(std::string_view arguments, const std::string& path, const Origin& origin) {
  const auto parts = split_arguments(arguments);
  const std::string variable(parts.front());
  Node result;
  if (const char* set = std::getenv(variable.c_str())) {
    result = Node::plain(set);
  } else if (parts.size() > 1) {
    std::string_view other = parts[1];
    const bool quoted =
        other.size() >= 2 && (other.front() == '\'' || other.front() == '"') && other.back() == other.front();
    if (quoted) other = other.substr(1, other.size() - 2);
    Node given = Node::plain(std::string(other));
    given.origin = origin;
    result = quoted ? given : expand_scalar(given, path);
    if (!quoted && result.is_scalar() && result.scalar == "null") result = Node();
  } else {
    const auto value = fallback_ ? fallback_("oc.env:" + variable) : std::nullopt;
    require<ConfigError>(value.has_value(),
                         "{}: {}: ${{oc.env:{}}}: there is no such environment variable, and no value "
                         "for that case (${{oc.env:{},VALUE}})",
                         origin.text(), path, variable, variable);
    result = *value;
  }
  result.origin = origin;
  return result;
}

Node Interpolator::lookup(std::string_view key, const std::string& path, const Origin& origin) {
  std::string full;
  if (!key.empty() && key.front() == '.') {
    // One dot: next to this key. Each more: one mapping up.
    std::vector<std::string> base = split_path(path);
    while (!key.empty() && key.front() == '.') {
      if (base.empty())
        fail<ConfigError>("{}: {}: ${{{}}} goes above the top level", origin.text(), path, key);
      base.pop_back();
      key.remove_prefix(1);
    }
    for (const auto& part : base) full = join_path(full, part);
    full = join_path(full, key);
  } else {
    full = key;
  }
  require<ConfigError>(!key.empty(), "{}: {}: an empty reference ${{}}", origin.text(), path);
  const Node* found = root_.find_path(full);
  // NeMo's launcher mounts a training file at `training`; the file alone has those keys at its top.
  if (!found && full.starts_with("training.")) found = root_.find_path(full = full.substr(9));
  if (!found) {
    if (fallback_) {
      if (auto value = fallback_(full)) return *value;
    }
    fail<ConfigError>("{}: {}: ${{{}}} names a key that is not given", origin.text(), path, full);
  }
  require<ConfigError>(active_.insert(full).second, "{}: {}: ${{{}}} refers back to itself", origin.text(),
                       path, full);
  Node value = expand(*found, full);
  active_.erase(full);
  return value;
}

}  // namespace stoa::config
