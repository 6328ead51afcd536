#include "eval/metrics/filters.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;

Json multi_choice(const Json& arguments, const Json& choices, const std::vector<std::string>& responses) {
  FilterSpec spec;
  spec.name = "letters";
  spec.steps.push_back({"multi_choice_regex", arguments});
  return FilterChain(spec, "task.yaml").apply(responses, Json{{"choices", choices}});
}

// What lm-evaluation-harness 0.4.13 answers (lm_eval/filters/extraction.py, MultiChoiceRegexFilter).
TEST(Filters, LettersOfChoicesAreThoseOfTheHarness) {
  const Json choices{"Guilty", "Guilty of Romance", "It's (A) – no!", " Élan vital. "};
  const std::vector<std::string> responses{"the answer is (C).",
                                           "I say guilty of romance, yes",
                                           "GUILTY",
                                           "Answer:  B",
                                           "none",
                                           "it's a no",
                                           "élan VITAL",
                                           "answer: (B) or (D)",
                                           "Guilty.",
                                           "Its A  no",
                                           "so: D or: A"};
  const std::string letter = R"((\([A-Z]\)))";
  const std::string x = "[invalid]";
  EXPECT_EQ(multi_choice(Json::object(), choices, responses),
            Json({x, x, x, "(B)", x, x, x, x, "(A)", x, "(D)"}));
  EXPECT_EQ(multi_choice({{"regex_pattern", letter}}, choices, responses),
            Json({"(C)", x, x, "(B)", x, x, x, "(B)", "(A)", x, "(D)"}));
  EXPECT_EQ(multi_choice({{"ignore_case", true}, {"ignore_punctuation", true}}, choices, responses),
            Json({x, "(B)", "(A)", "(B)", x, x, "(D)", x, "(A)", "(C)", "(D)"}));
  EXPECT_EQ(multi_choice({{"regex_pattern", letter},
                          {"group_select", -1},
                          {"ignore_case", true},
                          {"ignore_punctuation", true},
                          {"regexes_to_ignore", Json::array({"\\bthe\\b"})},
                          {"fallback", "?"}},
                         choices, responses),
            Json({"(C)", "(B)", "(A)", "(B)", "?", "?", "(D)", "(D)", "(A)", "(C)", "(A)"}));
}

TEST(Filters, ChoicesMustBeThere) {
  try {
    multi_choice(Json::object(), nullptr, {"a"});
    FAIL() << "a document without choices was taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("multi_choice_regex needs 1 to 26 'choices'"));
  }
  EXPECT_THROW(multi_choice({{"ignore_cas", true}}, Json{"a"}, {"a"}), ConfigError);
  EXPECT_THROW(multi_choice({{"ignore_case", "yes"}}, Json{"a"}, {"a"}), ConfigError);
}

}  // namespace
}  // namespace stoa::eval
