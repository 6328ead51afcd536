#include "constraint/schema/json_text.h"

#include "base/utf8.h"

namespace stoa::constraint {
namespace {

constexpr std::string_view kQuote = "\"";

const CodeSet& plain_in_json() {
  static const CodeSet set = CodeSet{{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}}.complement();
  return set;
}

// Any character of a string, in any spelling. Halves of surrogate pairs come in pairs.
Node free_character() {
  const Node hex = characters({{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}});
  const Node d = characters({{U'D', U'D'}, {U'd', U'd'}});
  const Node below_d800 = choice(
      {sequence({characters({{U'0', U'9'}, {U'A', U'C'}, {U'a', U'c'}, {U'E', U'F'}, {U'e', U'f'}}), hex}),
       sequence({d, characters({{U'0', U'7'}})})});
  const Node pair = sequence({d, characters({{U'8', U'9'}, {U'A', U'B'}, {U'a', U'b'}}), hex, hex,
                              text("\\u"), d, characters({{U'C', U'F'}, {U'c', U'f'}}), hex, hex});
  CodeSet letters;
  for (const char32_t c : U"\"\\/bfnrt")
    if (c != 0) letters.add(c, c);
  return choice(
      {characters(plain_in_json()),
       sequence(
           {text("\\"), choice({characters(letters),
                                sequence({text("u"), choice({sequence({below_d800, hex, hex}), pair})})})})});
}

Node digits(std::int64_t least, std::int64_t most) { return repeat(characters({{U'0', U'9'}}), least, most); }

Node whole_part() {
  return sequence({optional(text("-")),
                   choice({text("0"), sequence({characters({{U'1', U'9'}}), digits(0, kMostDigits - 1)})})});
}

}  // namespace

Node json_characters(CodeSet set) {
  std::vector<Node> parts{characters(set.intersection(plain_in_json()))};
  CodeSet short_letters, zero, one;
  for (const char32_t c : {U'"', U'\\'})
    if (set.contains(c)) short_letters.add(c, c);
  for (char32_t c = 0; c < 0x20; ++c) {
    if (!set.contains(c)) continue;
    const std::string_view short_form = "btnfr";
    const std::string_view controls = "\b\t\n\f\r";
    const auto at = controls.find(static_cast<char>(c));
    if (at != std::string_view::npos) {
      short_letters.add(static_cast<unsigned char>(short_form[at]),
                        static_cast<unsigned char>(short_form[at]));
    } else {
      const char32_t digit = c % 16 < 10 ? U'0' + c % 16 : U'a' + c % 16 - 10;
      (c < 16 ? zero : one).add(digit, digit);
    }
  }
  std::vector<Node> escapes;
  if (!short_letters.empty()) escapes.push_back(characters(short_letters));
  if (!zero.empty()) escapes.push_back(sequence({text("u000"), characters(zero)}));
  if (!one.empty()) escapes.push_back(sequence({text("u001"), characters(one)}));
  if (!escapes.empty()) parts.push_back(sequence({text("\\"), choice(std::move(escapes))}));
  return choice(std::move(parts));
}

Node json_string(const CharAutomaton& accepted) {
  return sequence({text(kQuote), expression_of(accepted, json_characters), text(kQuote)});
}

Node json_string(std::string_view exact) {
  std::vector<Node> parts{text(kQuote)};
  const auto chars = characters_of(exact);
  require<ConstraintError>(chars.has_value(), "a text of the schema is not UTF-8");
  for (const char32_t c : *chars) parts.push_back(json_characters({{c, c}}));
  parts.push_back(text(kQuote));
  return sequence(std::move(parts));
}

template <class Make>
Node JsonRules::shared(const std::string& name, Make make) {
  const auto [it, fresh] = rules_.emplace(name, 0);
  if (fresh) {
    // Known before its body is made: values contain values.
    const std::int32_t number = it->second = grammar_.add(name);
    Node body = make();
    grammar_.rules[static_cast<std::size_t>(number)].body = std::move(body);
    return rule(number);
  }
  return rule(it->second);
}

Node JsonRules::space() {
  return shared("white space", [] {
    return optional(
        choice({text(" "), sequence({text("\n"), repeat(choice({text(" "), text("\t")}), 0, 20)})}));
  });
}

Node JsonRules::value() {
  return shared("value", [this] {
    return choice({object(), array(), string(), number(), text("true"), text("false"), text("null")});
  });
}

Node JsonRules::object() {
  return shared("object", [this] {
    const Node one = member(string(), value());
    return sequence({text("{"), space(),
                     optional(sequence({one, repeat(sequence({text(","), space(), one}), 0), space()})),
                     text("}")});
  });
}

Node JsonRules::array() {
  return shared("array", [this] {
    return sequence(
        {text("["), space(),
         optional(sequence({value(), repeat(sequence({text(","), space(), value()}), 0), space()})),
         text("]")});
  });
}

Node JsonRules::number() {
  return shared("number", [] {
    return sequence({whole_part(), optional(sequence({text("."), digits(1, kMostDigits)})),
                     optional(sequence({characters({{U'E', U'E'}, {U'e', U'e'}}),
                                        optional(characters({{U'+', U'+'}, {U'-', U'-'}})), digits(1, 3)}))});
  });
}

Node JsonRules::integer() {
  return shared("integer", [] { return whole_part(); });
}

Node JsonRules::string() {
  return shared("string", [] { return sequence({text(kQuote), repeat(free_character(), 0), text(kQuote)}); });
}

Node JsonRules::string(std::int64_t least, std::int64_t most) {
  if (least == 0 && most == kUnbounded) return string();
  return shared(fmt::format("string of {} to {}", least, most), [&] {
    const Node one = shared("character", [] { return free_character(); });
    return sequence({text(kQuote), repeat(one, least, most), text(kQuote)});
  });
}

Node JsonRules::member(Node key, Node value) {
  return sequence({std::move(key), text(":"), space(), std::move(value)});
}

}  // namespace stoa::constraint
