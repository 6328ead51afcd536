#include "constraint/gbnf.h"

#include <map>

#include "base/nearest.h"
#include "base/utf8.h"
#include "constraint/text_reader.h"

namespace stoa::constraint {
namespace {

bool is_name_character(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U'-' ||
         c == U'_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const TokenNames& tokens, Budget& budget)
      : in_(text, "the grammar"), tokens_(tokens), budget_(budget) {}

  Grammar parse() {
    skip_space(true);
    while (!in_.done()) {
      parse_rule();
      skip_space(true);
    }
    std::vector<std::string> names;
    for (const Rule& rule : grammar_.rules)
      if (rule.body) names.push_back(rule.name);
    require<ConstraintError>(!names.empty(), "the grammar has no rules");
    for (const Rule& rule : grammar_.rules)
      require<ConstraintError>(rule.body != nullptr,
                               "the grammar uses the rule '{}', which it does not define{}", rule.name,
                               did_you_mean(rule.name, names));
    const auto root = numbers_.find("root");
    require<ConstraintError>(root != numbers_.end(),
                             "the grammar has no rule 'root', with which a text begins");
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  // A new line ends a rule, but not within a group.
  void skip_space(bool lines) {
    for (;;) {
      const char32_t c = in_.peek();
      if (in_.done()) return;
      if (c == U' ' || c == U'\t' || (lines && (c == U'\n' || c == U'\r'))) {
        in_.take();
      } else if (c == U'#') {
        while (!in_.done() && in_.peek() != U'\n' && in_.peek() != U'\r') in_.take();
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    std::string name;
    while (!in_.done() && is_name_character(in_.peek())) name += static_cast<char>(in_.take());
    if (name.empty()) in_.fail("the name of a rule was expected");
    return name;
  }

  std::int32_t number_of(const std::string& name) {
    const auto [it, fresh] = numbers_.emplace(name, 0);
    if (fresh) {
      budget_.spend(1);
      it->second = grammar_.add(name);
    }
    return it->second;
  }

  void parse_rule() {
    const std::string name = take_name();
    skip_space(false);
    if (!in_.take_if(U"::=")) in_.fail("'::=' was expected after the name of a rule");
    skip_space(true);
    const std::int32_t number = number_of(name);
    Node body = parse_choice(0);
    if (!in_.done() && in_.peek() != U'\n' && in_.peek() != U'\r')
      in_.fail("a new line was expected after the rule");
    Rule& rule = grammar_.rules[static_cast<std::size_t>(number)];
    require<ConstraintError>(rule.body == nullptr, "the grammar defines the rule '{}' twice", name);
    rule.body = std::move(body);
  }

  Node parse_choice(int depth) {
    if (depth > kDeepestGroup) in_.fail("groups nest deeper than 64 levels");
    std::vector<Node> parts{parse_sequence(depth)};
    for (;;) {
      // An alternative may begin a line: a rule does not begin with |.
      const std::size_t end = in_.place();
      skip_space(true);
      if (!in_.take_if(U'|')) {
        if (depth == 0) in_.go_to(end);
        break;
      }
      skip_space(true);
      parts.push_back(parse_sequence(depth));
    }
    return choice(std::move(parts));
  }

  Node parse_sequence(int depth) {
    std::vector<Node> parts;
    for (;;) {
      budget_.spend(1);
      Node part;
      if (in_.peek() == U'"') {
        part = parse_text();
      } else if (in_.take_if(U'[')) {
        part = parse_class();
      } else if (in_.take_if(U'.')) {
        part = characters(CodeSet::all());
      } else if (in_.take_if(U'(')) {
        skip_space(true);
        part = parse_choice(depth + 1);
        if (!in_.take_if(U')')) in_.fail("')' was expected");
      } else if (in_.peek() == U'<') {
        part = parse_token();
      } else if (in_.peek() == U'!') {
        in_.fail("excluded tokens, !<…>, are not supported");
      } else if (!in_.done() && is_name_character(in_.peek())) {
        part = rule(number_of(take_name()));
      } else {
        break;
      }
      parts.push_back(parse_repeats(std::move(part)));
      skip_space(depth > 0);
    }
    return sequence(std::move(parts));
  }

  Node parse_repeats(Node part) {
    for (int count = 0;; ++count) {
      skip_space(false);
      if (in_.take_if(U'*')) {
        part = repeat(std::move(part), 0);
      } else if (in_.take_if(U'+')) {
        part = repeat(std::move(part), 1);
      } else if (in_.take_if(U'?')) {
        part = optional(std::move(part));
      } else if (in_.take_if(U'{')) {
        skip_space(false);
        const auto least = in_.take_number();
        skip_space(false);
        std::int64_t most = least.value_or(0);
        if (in_.take_if(U',')) {
          skip_space(false);
          most = in_.take_number().value_or(kUnbounded);
          skip_space(false);
        } else if (!least) {
          in_.fail("a count was expected");
        }
        if (!in_.take_if(U'}')) in_.fail("'}' was expected");
        if (most != kUnbounded && most < least.value_or(0)) in_.fail("the greater count comes first");
        part = repeat(std::move(part), least.value_or(0), most);
      } else {
        return part;
      }
      if (count >= kDeepestGroup) in_.fail("repetitions of repetitions nest deeper than 64 levels");
    }
  }

  char32_t parse_character() {
    const char32_t c = in_.take();
    if (c != U'\\') return c;
    switch (const char32_t escaped = in_.take()) {
      case U'n':
        return U'\n';
      case U'r':
        return U'\r';
      case U't':
        return U'\t';
      case U'x':
        return in_.take_hexadecimal(2);
      case U'u':
        return in_.take_hexadecimal(4);
      case U'U':
        return in_.take_hexadecimal(8);
      case U'\\':
      case U'"':
      case U'[':
      case U']':
      case U'-':
      case U'^':
        return escaped;
      default:
        in_.fail("an unknown escape: \\n \\r \\t \\xNN \\uNNNN \\UNNNNNNNN \\\\ \\\" \\[ \\] are known");
    }
  }

  Node parse_text() {
    in_.take();
    std::string bytes;
    while (in_.peek() != U'"') {
      const char32_t c = parse_character();
      if (!CodeSet::all().contains(c)) in_.fail("a surrogate is no character");
      append_utf8(c, bytes);
    }
    in_.take();
    budget_.spend(static_cast<std::int64_t>(bytes.size()));
    return text(bytes);
  }

  Node parse_class() {
    const bool others = in_.take_if(U'^');
    CodeSet set;
    while (in_.peek() != U']' || in_.done()) {
      budget_.spend(1);
      const char32_t first = parse_character();
      char32_t last = first;
      if (in_.peek() == U'-' && in_.peek(1) != U']') {
        in_.take();
        last = parse_character();
        if (last < first) in_.fail("a range whose end comes first");
      }
      set.add(first, last);
    }
    in_.take();
    return characters(others ? set.complement() : set);
  }

  Node parse_token() {
    std::string name;
    append_utf8(in_.take(), name);
    if (in_.take_if(U'[')) {
      const auto id = in_.take_number();
      if (!id || !in_.take_if(U"]>")) in_.fail("a token is written <[id]> or <text>");
      Node token = tokens_.by_id(static_cast<std::int32_t>(*id));
      if (!token) in_.fail("the vocabulary has no token of this id");
      return token;
    }
    while (in_.peek() != U'>' && in_.peek() != U'\n') append_utf8(in_.take(), name);
    append_utf8(in_.take(), name);
    Node token = tokens_.by_text(name);
    if (!token) in_.fail("the vocabulary has no token of this name");
    return token;
  }

  TextReader in_;
  const TokenNames& tokens_;
  Budget& budget_;
  Grammar grammar_;
  std::map<std::string, std::int32_t> numbers_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text, const TokenNames& tokens, Budget& budget) {
  return GbnfParser(text, tokens, budget).parse();
}

}  // namespace stoa::constraint
