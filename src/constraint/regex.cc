#include "constraint/regex.h"

#include <algorithm>

#include "constraint/text_reader.h"
#include "token/unicode.h"

namespace stoa::constraint {
namespace {

constexpr std::int64_t kMostRepeats = 10'000;

const CodeSet& digits() {
  static const CodeSet set{{U'0', U'9'}};
  return set;
}
const CodeSet& word_characters() {
  static const CodeSet set{{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
  return set;
}
// Of ECMA-262: white space and ends of lines.
const CodeSet& spaces() {
  static const CodeSet set{{U'\t', U'\r'},   {U' ', U' '},     {0xA0, 0xA0},     {0x1680, 0x1680},
                           {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                           {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CodeSet& ends_of_lines() {
  static const CodeSet set{{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}};
  return set;
}

CodeSet of_class(token::CharClass wanted) {
  CodeSet out;
  const auto runs = token::unicode_class_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const char32_t first = runs[i] >> 8, last = i + 1 < runs.size() ? (runs[i + 1] >> 8) - 1 : 0x10FFFF;
    if (static_cast<token::CharClass>(runs[i] & 7) == wanted) out.add(first, last);
  }
  return out;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, Budget& budget)
      : in_(pattern, "the regular expression"), budget_(budget) {}

  Node parse() {
    Node out = parse_choice(0);
    if (!in_.done()) in_.fail("a ')' without its '('");
    return out;
  }

 private:
  Node parse_choice(int depth) {
    if (depth > kDeepestGroup) in_.fail("groups nest deeper than 64 levels");
    std::vector<Node> parts{parse_sequence(depth)};
    while (in_.take_if(U'|')) parts.push_back(parse_sequence(depth));
    return choice(std::move(parts));
  }

  Node parse_sequence(int depth) {
    std::vector<Node> parts;
    while (!in_.done() && in_.peek() != U'|' && in_.peek() != U')') {
      budget_.spend(1);
      parts.push_back(parse_repeats(parse_atom(depth)));
    }
    return sequence(std::move(parts));
  }

  Node parse_repeats(Node part) {
    const std::size_t place = in_.place();
    std::int64_t least = 0, most = 0;
    if (in_.take_if(U'*')) {
      most = kUnbounded;
    } else if (in_.take_if(U'+')) {
      least = 1, most = kUnbounded;
    } else if (in_.take_if(U'?')) {
      most = 1;
    } else if (!take_counts(least, most)) {
      return part;
    }
    const auto kind = part->kind;
    if (kind == Expression::Kind::kBegin || kind == Expression::Kind::kEnd) {
      in_.go_to(place);
      in_.fail("a repetition without anything to repeat");
    }
    in_.take_if(U'?');  // as few as possible: the texts are the same
    if (in_.peek() == U'+') in_.fail("possessive repetitions are not supported");
    if (in_.peek() == U'*' || in_.peek() == U'?') in_.fail("a repetition of a repetition");
    return repeat(std::move(part), least, most);
  }

  // {m}, {m,} or {m,n}; anything else after { is text.
  bool take_counts(std::int64_t& least, std::int64_t& most) {
    const std::size_t place = in_.place();
    if (!in_.take_if(U'{')) return false;
    const auto first = in_.take_number();
    if (first) {
      least = most = *first;
      if (in_.take_if(U',')) most = in_.take_number().value_or(kUnbounded);
      if (in_.take_if(U'}')) {
        if (most != kUnbounded && most < least) in_.fail("the greater count comes first");
        if (std::max(least, most) > kMostRepeats) in_.fail("a count above 10000");
        return true;
      }
    }
    in_.go_to(place);
    return false;
  }

  Node parse_atom(int depth) {
    const char32_t c = in_.take();
    switch (c) {
      case U'.':
        return characters(ends_of_lines().complement());
      case U'^':
        return begin_of_text();
      case U'$':
        return end_of_text();
      case U'[':
        return parse_class();
      case U'(':
        return parse_group(depth);
      case U'*':
      case U'+':
      case U'?':
        in_.fail("a repetition without anything to repeat");
      case U'\\':
        return parse_escape();
      default:
        return one(c);
    }
  }

  static Node one(char32_t c) { return characters({{c, c}}); }

  Node parse_group(int depth) {
    if (in_.take_if(U'?')) {
      const bool named = in_.take_if(U"P<") || (in_.peek() == U'<' && in_.peek(1) != U'=' &&
                                                in_.peek(1) != U'!' && in_.take_if(U'<'));
      if (named) {
        while (in_.take() != U'>') {
        }
      } else if (!in_.take_if(U':')) {
        in_.fail(in_.peek() == U'=' || in_.peek() == U'!' || in_.peek() == U'<'
                     ? "look-ahead and look-behind are not supported"
                     : "groups of this kind are not supported");
      }
    }
    Node out = parse_choice(depth + 1);
    if (!in_.take_if(U')')) in_.fail("')' was expected");
    return out;
  }

  // The set of a class escape such as \d; none: `c` begins none.
  std::optional<CodeSet> class_of(char32_t c) {
    switch (c) {
      case U'd':
        return digits();
      case U'D':
        return digits().complement();
      case U'w':
        return word_characters();
      case U'W':
        return word_characters().complement();
      case U's':
        return spaces();
      case U'S':
        return spaces().complement();
      case U'p':
        return parse_property();
      case U'P':
        return parse_property().complement();
      default:
        return std::nullopt;
    }
  }

  CodeSet parse_property() {
    if (!in_.take_if(U'{')) in_.fail("'{' was expected after \\p");
    std::u32string name;
    while (in_.peek() != U'}') name += in_.take();
    in_.take();
    if (name == U"L" || name == U"Letter" || name == U"Alphabetic")
      return of_class(token::CharClass::kLetter);
    if (name == U"N" || name == U"Number") return of_class(token::CharClass::kNumber);
    if (name == U"ASCII") return {{0, 0x7F}};
    if (name == U"Any") return CodeSet::all();
    in_.fail("of the properties of characters, L, N, ASCII and Any are supported");
  }

  // A character that an escape stands for.
  char32_t escaped_character(char32_t c) {
    switch (c) {
      case U'n':
        return U'\n';
      case U'r':
        return U'\r';
      case U't':
        return U'\t';
      case U'v':
        return U'\v';
      case U'f':
        return U'\f';
      case U'a':
        return U'\a';
      case U'x':
        return in_.take_hexadecimal(2);
      case U'c': {
        const char32_t letter = in_.take();
        if (!((letter >= U'a' && letter <= U'z') || (letter >= U'A' && letter <= U'Z')))
          in_.fail("a letter was expected after \\c");
        return letter % 32;
      }
      case U'0':
        if (in_.peek() >= U'0' && in_.peek() <= U'9') in_.fail("octal escapes are not supported");
        return 0;
      case U'u':
        return parse_unicode();
      default:
        break;
    }
    if ((c >= U'1' && c <= U'9') || c == U'k') in_.fail("references to groups are not supported");
    const bool letter = (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
    if (letter) in_.fail("an unknown escape");
    return c;
  }

  char32_t parse_unicode() {
    if (in_.take_if(U'{')) {
      char32_t value = 0;
      for (int count = 0; !in_.take_if(U'}'); ++count) {
        if (count == 8) in_.fail("too many digits");
        const char32_t digit = in_.take_hexadecimal(1);
        value = value * 16 + digit;
        if (value > 0x10FFFF) in_.fail("there is no character beyond U+10FFFF");
      }
      return value;
    }
    const char32_t high = in_.take_hexadecimal(4);
    if (high >= 0xD800 && high < 0xDC00 && in_.take_if(U"\\u")) {
      const char32_t low = in_.take_hexadecimal(4);
      if (low < 0xDC00 || low > 0xDFFF) in_.fail("the second half of a surrogate pair was expected");
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    return high;
  }

  Node parse_escape() {
    const char32_t c = in_.take();
    if (c == U'b' || c == U'B') in_.fail("word boundaries are not supported");
    if (c == U'A') return begin_of_text();
    if (c == U'z' || c == U'Z') return end_of_text();
    if (auto set = class_of(c)) return characters(std::move(*set));
    return one(escaped_character(c));
  }

  // One character of a class, or a whole set.
  std::optional<CodeSet> parse_class_item(char32_t& c) {
    c = in_.take();
    if (c != U'\\') return std::nullopt;
    const char32_t escaped = in_.take();
    if (auto set = class_of(escaped)) return set;
    c = escaped == U'b' ? U'\b' : escaped_character(escaped);
    return std::nullopt;
  }

  Node parse_class() {
    const bool others = in_.take_if(U'^');
    CodeSet set;
    while (in_.done() || in_.peek() != U']') {
      budget_.spend(1);
      char32_t first = 0, last = 0;
      if (const auto whole = parse_class_item(first)) {
        set.add(*whole);
        continue;
      }
      last = first;
      if (in_.peek() == U'-' && in_.peek(1) != U']') {
        in_.take();
        if (parse_class_item(last)) in_.fail("a range that ends with a class");
        if (last < first) in_.fail("a range whose end comes first");
      }
      set.add(first, last);
    }
    in_.take();
    return characters(others ? set.complement() : set);
  }

  TextReader in_;
  Budget& budget_;
};

}  // namespace

CharAutomaton parse_regex(std::string_view pattern, RegexMatch match, Budget& budget) {
  Node node = RegexParser(pattern, budget).parse();
  if (match == RegexMatch::kAnywhere) {
    const Node any = repeat(characters(CodeSet::all()), 0);
    node = sequence({any, node, any});
  }
  return automaton_of(node, budget);
}

}  // namespace stoa::constraint
