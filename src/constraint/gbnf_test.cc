#include "constraint/gbnf.h"

#include "constraint/test_support.h"

namespace stoa::constraint {
namespace {

Machine of(const std::string& text) {
  return machine_of(Source{.kind = Source::Kind::kGrammar, .text = text});
}

TEST(Gbnf, ReadsTheGrammarsOfLlamaCpp) {
  // In the manner of its json.gbnf: groups over several lines, comments, repetitions.
  Machine json = of(R"(# a comment
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value  # a member
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)");
  EXPECT_TRUE(accepts(json, R"({"a": [1, -2.5e3, "x\u00e9\n", null, {}], "b": true})"));
  EXPECT_FALSE(accepts(json, R"({"a": [1, ]})"));
  EXPECT_FALSE(accepts(json, R"({"a": 01})"));
  Machine chess =
      of("root ::= [1-9] [0-9]? \". \" move\n  | \"none\"\nmove ::= piece? [a-h] [1-8]\npiece ::= [KQRBN]");
  EXPECT_TRUE(accepts(chess, "12. Qh4"));
  EXPECT_TRUE(accepts(chess, "none"));
  Machine counts = of("root ::= \"a\"{2} \"b\"{1,} \"c\"{,2} (\"d\")+ [\\u00e9-\\u00ea]? \"\\x41\"");
  EXPECT_TRUE(accepts(counts, "aabbccddA"));
  EXPECT_TRUE(accepts(counts,
                      "aabd\xC3\xA9"
                      "A"));
  EXPECT_FALSE(accepts(counts, "aabcccdA"));
}

TEST(Gbnf, MistakesAreNamedWithTheirPlace) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "no rules"},
           {"start ::= \"a\"", "no rule 'root'"},
           {"root ::= itm\nitem ::= \"a\"", "'itm', which it does not define (did you mean 'item'?)"},
           {"root ::= \"a\"\nroot ::= \"b\"", "'root' twice"},
           {"root := \"a\"", "line 1, character 6: '::=' was expected"},
           {"root ::= \"a", "ends too early"},
           {"root ::= [a", "ends too early"},
           {"root ::= (\"a\"", "')' was expected"},
           {"root ::= \"a\"{x}", "a count was expected"},
           {"root ::= \"a\"{3,2}", "greater count"},
           {"root ::= \"a\"{9999999}", "above 1000000"},
           {"root ::= \"\\q\"", "unknown escape"},
           {"root ::= [z-a]", "end comes first"},
           {"root ::= <tool>", "no token of this name"},
           {"root ::= !<tool>", "not supported"},
           {"root ::= \"a\" = ", "new line was expected"},
           {"root ::= " + std::string(100, '(') + "\"a\"" + std::string(100, ')'), "64 levels"},
           {"root ::= \"a\"" + std::string(100, '*'), "64 levels"}}) {
    const std::string why = refusal({.kind = Source::Kind::kGrammar, .text = text});
    EXPECT_NE(why.find(words), std::string::npos) << text << ": " << why;
  }
}

}  // namespace
}  // namespace stoa::constraint
