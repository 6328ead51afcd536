#include "constraint/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "constraint/reference_matcher.h"
#include "constraint/test_support.h"

namespace stoa::constraint {
namespace {

Grammar gbnf(std::string_view text) {
  Budget budget;
  return parse_gbnf(text, NoTokens(), budget);
}

// Expressions over a, b and c and a few rules that call each other in every way.
Node random_expression(std::mt19937& random, int depth, std::int32_t rules) {
  const auto below = [&](std::uint32_t n) { return random() % n; };
  const auto kind = below(depth == 0 ? 3 : 7);
  const auto part = [&] { return random_expression(random, depth - 1, rules); };
  switch (kind) {
    case 0:
      return characters({{static_cast<char32_t>(U'a' + below(2)), static_cast<char32_t>(U'b' + below(2))}});
    case 1:
      return text(std::string(below(3), static_cast<char>('a' + below(3))));
    case 2:
      return rule(static_cast<std::int32_t>(below(static_cast<std::uint32_t>(rules))));
    case 3:
      return choice({part(), part()});
    case 4:
      return repeat(part(), below(2), below(2) != 0 ? kUnbounded : 1 + below(3));
    default:
      return sequence({part(), part()});
  }
}

std::vector<std::string> all_texts(std::size_t longest) {
  std::vector<std::string> out{""};
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].size() < longest)
      for (const char c : {'a', 'b', 'c'}) out.push_back(out[i] + c);
  return out;
}

TEST(Machine, RandomGrammarsAcceptWhatTheirDefinitionSays) {
  int compared = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    Grammar grammar;
    const auto rules = static_cast<std::int32_t>(1 + random() % 4);
    for (std::int32_t r = 0; r < rules; ++r) grammar.add("r", random_expression(random, 3, rules));
    std::optional<Machine> machine;
    try {
      machine.emplace(machine_of(grammar));
    } catch (const ConstraintError& error) {
      // Nothing fits, which the definition says, too.
      EXPECT_STREQ(error.what(), "the constraint allows no text at all") << seed;
      for (const std::string& text : all_texts(4))
        EXPECT_FALSE(ReferenceMatcher(grammar, text).accepts()) << seed << " " << text;
      continue;
    }
    for (const std::string& text : all_texts(4)) {
      const ReferenceMatcher reference(grammar, text);
      const auto state = machine->next(machine->start(), text);
      ASSERT_EQ(state != Machine::kDead, reference.may_go_on()) << "seed " << seed << ": " << text;
      ASSERT_EQ(state != Machine::kDead && machine->accepts(state), reference.accepts())
          << "seed " << seed << ": " << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 10'000);
}

TEST(Machine, LeftRecursionOfEveryKind) {
  Machine sum = machine_of(gbnf("root ::= root \"+\" term | term\nterm ::= term \"*\" [0-9] | [0-9]"));
  EXPECT_TRUE(accepts(sum, "1+2*3+4"));
  EXPECT_FALSE(accepts(sum, "1+"));
  EXPECT_FALSE(accepts(sum, "+1"));
  Machine indirect =
      machine_of(gbnf("root ::= a\na ::= b \"x\" | \"p\"\nb ::= empty a \"y\" | \"q\"\nempty ::= \"e\"?"));
  EXPECT_TRUE(accepts(indirect, "pyxyx"));
  EXPECT_TRUE(accepts(indirect, "eqx") == false);
  EXPECT_TRUE(accepts(indirect, "epyx"));
  EXPECT_TRUE(accepts(indirect, "qxyx"));
}

TEST(Machine, LongRepetitionsCountExactly) {
  for (const auto& [least, most] :
       std::vector<std::pair<int, int>>{{0, 100}, {65, 200}, {130, 130}, {77, -1}}) {
    Grammar grammar;
    grammar.add("root", sequence({repeat(choice({text("ab"), text("c")}), least, most), text("!")}));
    Machine machine = machine_of(grammar);
    for (int n = 0; n < 300; ++n) {
      std::string text;
      for (int i = 0; i < n; ++i) text += i % 3 == 0 ? "ab" : "c";
      EXPECT_EQ(accepts(machine, text + "!"), n >= least && (most < 0 || n <= most)) << n << " of " << least;
    }
  }
}

TEST(Machine, DeepTextsEndWhereTheDepthDoes) {
  Machine machine = machine_of(gbnf("root ::= \"(\" root \")\" | \"x\""), byte_tokens(), 100);
  const auto nested = [](int n) { return std::string(n, '(') + "x" + std::string(n, ')'); };
  EXPECT_TRUE(accepts(machine, nested(90)));
  EXPECT_FALSE(accepts(machine, nested(110)));
  // At the last level the mask no longer offers what cannot be closed.
  std::string text;
  while (has(*machine.mask(machine.next(machine.start(), text)), '(')) text += '(';
  EXPECT_LT(text.size(), 105u);
  EXPECT_TRUE(accepts(machine, text + "x" + std::string(text.size(), ')')));
}

TEST(Machine, CharactersAreWholeUtf8) {
  Machine machine = machine_of(gbnf("root ::= [^a]{2} \"\\u20ac\""));
  EXPECT_TRUE(accepts(machine, "\xC3\xA9\xF0\x9F\x98\x80\xE2\x82\xAC"));
  EXPECT_TRUE(accepts(machine, "bb\xE2\x82\xAC"));
  EXPECT_FALSE(accepts(machine, "ab\xE2\x82\xAC"));
  EXPECT_FALSE(accepts(machine,
                       "\xC0\x80"
                       "b\xE2\x82\xAC"));
  EXPECT_FALSE(accepts(machine,
                       "\xED\xA0\x80"
                       "b\xE2\x82\xAC"));
}

// A vocabulary of pieces of texts, of all lengths, with broken characters among them.
std::shared_ptr<const TokenTrie> pieces(std::mt19937& random, const std::vector<std::string>& corpus) {
  std::vector<std::string> texts;
  for (int b = 0; b < 255; ++b) texts.emplace_back(1, static_cast<char>(b));
  for (int i = 0; i < 3000; ++i) {
    const std::string& text = corpus[random() % corpus.size()];
    const std::size_t from = random() % text.size();
    texts.push_back(text.substr(from, 1 + random() % 40));
  }
  return std::make_shared<const TokenTrie>(std::move(texts), std::vector<std::int32_t>{});
}

TEST(Machine, MasksAreTheTokensThatCanFollow) {
  const std::string body =
      "\"name\": \"\xC3\xA9l\xC3\xA8ve of the 1st \xF0\x9F\x98\x80 class\", \n\t\"say\": \"\\u00e9 "
      "\\\"x\\\"\"";
  const std::vector<std::string> corpus{body, "{" + body + "}",
                                        "plain words and more plain words, all in one line of text",
                                        "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xE3\x81\xA7\xE3\x81\x99"};
  const std::vector<std::string> grammars{
      "root ::= \"{\" (pair (\",\" ws pair)*)? \"}\"\npair ::= str \":\" ws str\nws ::= [ \\n\\t]*\n"
      "str ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\nrt] | \"u\" [0-9a-f]{4}))* \"\\\"\"",
      "root ::= [^\"\\\\\\x00-\\x1f]{3,300} \"\\n\"", "root ::= [^\"\\\\\\x00-\\x1f]{0,20} [a-z]{1,7}",
      "root ::= .{5000} | ([a-z ]+ \",\")*", "root ::= [\\u0080-\\U0010ffff]{1,50}"};
  std::mt19937 random(5);
  for (const std::string& source : grammars) {
    const auto tokens = pieces(random, corpus);
    Machine machine = machine_of(gbnf(source), tokens);
    Machine other = machine_of(gbnf(source), tokens);
    for (int walk = 0; walk < 6; ++walk) {
      auto state = machine.start();
      std::string text;
      for (int step = 0; step < 40; ++step) {
        const auto mask = machine.mask(state);
        std::vector<std::int32_t> allowed;
        for (std::int32_t id = 0; id < tokens->vocabulary(); ++id) {
          const bool expected = !tokens->bytes(id).empty() &&
                                other.next(other.start(), text + tokens->bytes(id)) != Machine::kDead;
          ASSERT_EQ(has(*mask, id), expected)
              << source << "\nafter " << text << "\ntoken " << tokens->bytes(id);
          if (expected) allowed.push_back(id);
        }
        if (allowed.empty()) {
          ASSERT_TRUE(machine.complete(state)) << source << "\nafter " << text;
          break;
        }
        const std::string& next = tokens->bytes(allowed[random() % allowed.size()]);
        text += next;
        state = machine.next(state, next);
      }
    }
  }
}

TEST(Machine, SpecialTokensAreAllowedOnlyWhereTheyAreNamed) {
  const auto tokens = std::make_shared<const TokenTrie>(
      std::vector<std::string>{"", "a", "b", "ab", "\xFF", "<s>"}, std::vector<std::int32_t>{0, 5});
  Grammar grammar;
  grammar.add("root", sequence({special_token(5), repeat(characters(CodeSet::all()), 2, 2)}));
  Budget budget;
  const auto constraint = std::make_shared<Constraint>(grammar, tokens, budget);
  ConstrainedText text(constraint);
  EXPECT_EQ(*text.allowed(), TokenBits{1 << 5});
  EXPECT_FALSE(text.push(0));
  EXPECT_FALSE(text.push(1));
  EXPECT_TRUE(text.push(5));
  EXPECT_EQ(*text.allowed(), TokenBits{1 << 1 | 1 << 2 | 1 << 3});
  EXPECT_FALSE(text.complete());
  EXPECT_TRUE(text.push(3));
  EXPECT_TRUE(text.complete());
  EXPECT_TRUE(text.accepts());
  EXPECT_FALSE(text.push(1));
  EXPECT_FALSE(text.push(99));
}

TEST(Machine, TooLargeAndEndlessGrammarsAreRefused) {
  const auto refused = [](std::string text) {
    return refusal({.kind = Source::Kind::kGrammar, .text = std::move(text)}, {.states = 5000, .seconds = 2});
  };
  EXPECT_NE(refused("root ::= [ab]* \"a\" [ab]{20}").find("too large"), std::string::npos);
  EXPECT_EQ(refused("root ::= root"), "the constraint allows no text at all");
  EXPECT_EQ(refused("root ::= \"a\" root"), "the constraint allows no text at all");
  EXPECT_EQ(refused("root ::= (\"a\"{1000}){1000}"), "");
}

// A text may be read in ever more ways; one request must not stop the others.
TEST(Machine, AmbiguousTextsAreGivenUpBeforeTheyTakeLong) {
  Machine sums = machine_of(gbnf("root ::= root root root | root root | \"a\" | \"a\" \"a\""));
  auto state = sums.start();
  std::string why;
  for (int i = 0; i < 3000 && why.empty(); ++i) {
    try {
      state = sums.next(state, "a");
      ASSERT_NE(state, Machine::kDead);
      (void)sums.mask(state);
    } catch (const ConstraintError& error) {
      why = error.what();
    }
  }
  EXPECT_EQ(why, "the constraint is too ambiguous for this text");
  // After an error the machine still answers.
  EXPECT_TRUE(accepts(sums, "aaa"));
}

// Texts that a machine has read are found again after it forgot them.
TEST(Machine, WhatWasForgottenIsReadAgain) {
  const auto tokens = byte_tokens();
  Budget budget;
  const auto constraint =
      std::make_shared<Constraint>(gbnf("root ::= (\"x\" [a-z]{0,100000} \";\")*"), tokens, budget);
  ConstrainedText kept(constraint), long_text(constraint);
  for (const char c : {'x', 'a', 'b'}) ASSERT_TRUE(kept.push(c));
  // Every character makes new states, until the bounds are passed several times.
  ASSERT_TRUE(long_text.push('x'));
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(long_text.push('a' + i % 26)) << i;
  EXPECT_FALSE(long_text.push('a'));
  EXPECT_TRUE(long_text.push(';'));
  EXPECT_TRUE(long_text.accepts());
  EXPECT_FALSE(kept.accepts());
  EXPECT_TRUE(kept.push('c'));
  EXPECT_FALSE(kept.push('x' - 32));
  EXPECT_TRUE(kept.push(';'));
  EXPECT_TRUE(kept.accepts());
}

}  // namespace
}  // namespace stoa::constraint
