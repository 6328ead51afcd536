#include "constraint/regex.h"

#include <random>
#include <regex>

#include "constraint/test_support.h"

namespace stoa::constraint {
namespace {

bool matches(std::string_view pattern, std::string_view text, RegexMatch match = RegexMatch::kWhole) {
  Budget budget;
  return parse_regex(pattern, match, budget).matches(text);
}

std::string random_pattern(std::mt19937& random, int depth) {
  const auto below = [&](std::uint32_t n) { return random() % n; };
  const auto part = [&] { return random_pattern(random, depth - 1); };
  switch (below(depth == 0 ? 5 : 10)) {
    case 0:
      return "a";
    case 1:
      return "[^b]";
    case 2:
      return "[ab]";
    case 3:
      return "\\w";
    case 4:
      return "c";
    case 5:
      return "(?:" + part() + "|" + part() + ")";
    case 6:
      return "(" + part() + ")" + std::vector<std::string>{"*", "+", "?", "{2}", "{1,2}", "{2,}"}[below(6)];
    case 7:
      return "(?:^" + part() + "|" + part() + "$)";
    default:
      return part() + part();
  }
}

TEST(ConstraintRegex, RandomPatternsMatchWhatTheStandardLibrarySays) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < 4)
      for (const char c : {'a', 'b', 'c', '-'}) texts.push_back(texts[i] + c);
  std::mt19937 random(1);
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = random_pattern(random, 3);
    const std::regex standard(pattern);
    Budget budget;
    const CharAutomaton whole = parse_regex(pattern, RegexMatch::kWhole, budget);
    const CharAutomaton anywhere = parse_regex(pattern, RegexMatch::kAnywhere, budget);
    for (const std::string& text : texts) {
      ASSERT_EQ(whole.matches(text), std::regex_match(text, standard)) << pattern << " of " << text;
      ASSERT_EQ(anywhere.matches(text), std::regex_search(text, standard)) << pattern << " in " << text;
    }
  }
}

TEST(ConstraintRegex, EscapesAndClasses) {
  EXPECT_TRUE(matches(R"(\d{4}-\d\d\s\x41\u0042\u{43}\cJ\t\/\.)", "2026-11 ABC\n\t/."));
  EXPECT_TRUE(matches(R"([\w\-.]+)", "a-b.c_9"));
  EXPECT_FALSE(matches(R"([^\s]+)", "a b"));
  EXPECT_TRUE(matches(R"([a\]b]+)", "a]b"));
  EXPECT_TRUE(matches(R"([]|x)", "x"));
  EXPECT_TRUE(matches(R"([^])", "x"));
  EXPECT_TRUE(matches(R"(\p{L}+\P{L})", "\xC3\xA9t\xC3\xA9!"));
  EXPECT_TRUE(matches(R"(.)", "\xF0\x9F\x98\x80"));
  EXPECT_FALSE(matches(R"(.)", "\n"));
  EXPECT_TRUE(matches(R"(\ud83d\ude00)", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(matches(R"((?P<year>\d+)(?<month>-\d+)??)", "12"));
  EXPECT_TRUE(matches(R"(a{,3})", "a{,3}"));
  EXPECT_TRUE(matches("\\Aab\\Z", "ab"));
  EXPECT_TRUE(matches("b+", "abba", RegexMatch::kAnywhere));
  EXPECT_FALSE(matches("^b+$", "abba", RegexMatch::kAnywhere));
}

TEST(ConstraintRegex, WhatIsNotSupportedIsNamed) {
  for (const auto& [pattern, words] : std::vector<std::pair<std::string, std::string>>{
           {"(?=a)b", "look-ahead"},
           {"(?<!a)b", "look-behind"},
           {"(?i)b", "groups of this kind"},
           {"(a)\\1", "references to groups"},
           {"\\bword", "word boundaries"},
           {"a**", "repetition of a repetition"},
           {"*a", "without anything to repeat"},
           {"^*", "without anything to repeat"},
           {"(a", "')' was expected"},
           {"a)", "without its '('"},
           {"[a", "ends too early"},
           {"[z-a]", "end comes first"},
           {"a{3,2}", "greater count"},
           {"a{99999}", "above 10000"},
           {"\\q", "unknown escape"},
           {"\\p{Greek}", "properties"},
           {"\xFF", "not UTF-8"},
           {std::string(100, '(') + std::string(100, ')'), "64 levels"},
           {"(a|b)*a(a|b){30}", "too large"},
           {"((a{1000}){1000}){1000}", "too large"}}) {
    // The machine may be slow: states are what counts here.
    const std::string why = refusal({.kind = Source::Kind::kRegex, .text = pattern}, {.seconds = 60});
    EXPECT_NE(why.find(words), std::string::npos) << pattern << ": " << why;
  }
}

}  // namespace
}  // namespace stoa::constraint
