// Node <-> C++ values. Codec<T> is the one place that knows how a type is written in YAML.
//
// Numbers: decimal integers, also `1_000` (underscores between digits) and `1e6` (an exact integer in
// exponent form); reals as `0.5`, `.5`, `1e-4`, `6.0e-4`. Not accepted: octal and hexadecimal, leading zeros,
// infinity, NaN, quoted numbers. Booleans: true and false; yes/no/on/off are refused, for booleans and,
// unquoted, for text. Null: null, ~, nothing.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "config/node.h"

namespace stoa::config {

// Thrown by codecs; the reader adds the place, the key and what was given.
struct ValueError {
  std::string expected;  // "an integer", "one of adamw, adam, sgd"
  std::string hint;      // " (did you mean 'adamw'?)", or empty
};

// One spelling of an enum's value. The first spelling of a value is the one that is printed; others are
// accepted.
template <class E>
struct EnumName {
  std::string_view name;
  E value;
};

// An enum is supported if its namespace has `std::span<const config::EnumName<E>> enum_names(E);`
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  { enum_names(e) } -> std::convertible_to<std::span<const EnumName<E>>>;
};

// The first name of a value.
template <NamedEnum E>
std::string_view enum_name(E value) {
  for (const auto& known : std::span<const EnumName<E>>(enum_names(value)))
    if (known.value == value) return known.name;
  fail<InternalError>("an enumeration has a value without name");
}

bool looks_like_number(std::string_view text);
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);
std::string print_real(double value);  // shortest text that reads back to the same value

// Index of `text` in `names` (case ignored), or ValueError with the choices and the nearest one.
std::size_t find_choice(const Node& node, std::span<const std::string> names);

template <class T>
struct Codec;  // static T parse(const Node&); static Node print(const T&); static std::string type();

template <>
struct Codec<bool> {
  static bool parse(const Node& node);
  static Node print(bool value) { return Node::plain(value ? "true" : "false"); }
  static std::string type() { return "boolean"; }
};

template <>
struct Codec<std::int64_t> {
  static std::int64_t parse(const Node& node);
  static Node print(std::int64_t value) { return Node::plain(std::to_string(value)); }
  static std::string type() { return "integer"; }
};

template <>
struct Codec<double> {
  static double parse(const Node& node);
  static Node print(double value) { return Node::plain(print_real(value)); }
  static std::string type() { return "number"; }
};

template <>
struct Codec<std::string> {
  static std::string parse(const Node& node);
  static Node print(const std::string& value) { return Node::text(value); }
  static std::string type() { return "text"; }
};

template <class T>
struct Codec<std::optional<T>> {
  static std::optional<T> parse(const Node& node) {
    if (node.is_null()) return std::nullopt;
    return Codec<T>::parse(node);
  }
  static Node print(const std::optional<T>& value) { return value ? Codec<T>::print(*value) : Node{}; }
  static std::string type() { return Codec<T>::type() + " or null"; }
};

template <class T>
struct Codec<std::vector<T>> {
  static std::vector<T> parse(const Node& node) {
    if (!node.is_sequence()) throw ValueError{type(), ""};
    std::vector<T> values;
    values.reserve(node.items.size());
    for (const auto& item : node.items) values.push_back(Codec<T>::parse(item));
    return values;
  }
  static Node print(const std::vector<T>& values) {
    std::vector<Node> items;
    for (const auto& value : values) items.push_back(Codec<T>::print(value));
    return Node::sequence(std::move(items));
  }
  static std::string type() { return "list of " + Codec<T>::type(); }
};

template <NamedEnum E>
struct Codec<E> {
  static std::vector<std::string> spellings() {
    std::vector<std::string> names;
    for (const auto& entry : std::span<const EnumName<E>>(enum_names(E{}))) names.emplace_back(entry.name);
    return names;
  }
  static E parse(const Node& node) {
    const std::span<const EnumName<E>> names = enum_names(E{});
    return names[find_choice(node, spellings())].value;
  }
  static Node print(E value) {
    for (const auto& entry : std::span<const EnumName<E>>(enum_names(E{}))) {
      if (entry.value == value) return Node::text(std::string(entry.name));
    }
    return {};
  }
  static std::string type() { return "choice"; }
};

// Calls `visit(double)` for each number in a value: what range checks look at.
template <class T, class F>
void for_each_number(const T& value, F&& visit) {
  if constexpr (std::is_same_v<T, bool>) {
    (void)visit;
  } else if constexpr (std::is_arithmetic_v<T>) {
    visit(static_cast<double>(value));
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) for_each_number(*value, visit);
  } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
    for (const auto& item : value) for_each_number(item, visit);
  }
}

// The choice texts of a type that has them (enums, also inside optional and vector).
template <class T>
std::vector<std::string> choices_of() {
  if constexpr (NamedEnum<T>) {
    return Codec<T>::spellings();
  } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
    return choices_of<typename T::value_type>();
  } else {
    return {};
  }
}

}  // namespace stoa::config
