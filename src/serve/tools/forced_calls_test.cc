#include "serve/tools/forced_calls.h"

#include <gmock/gmock.h>

#include "constraint/test_support.h"

namespace stoa::serve {
namespace {

using ::testing::HasSubstr;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "weather", "parameters":
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 9}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "now"}}])");

constraint::Machine machine_of(const ForcedCalls& calls) {
  constraint::Budget budget({.seconds = 60});
  return constraint::machine_of(calls.grammar(constraint::NoTokens(), budget));
}

// What a grammar allows is read back as the same calls.
TEST(ForcedCalls, AreReadBackInEveryFamily) {
  const std::string city = R"({"city": "Rome", "days": 3})";
  const std::vector<std::pair<ToolFamily, std::string>> answers{
      {ToolFamily::kHermes,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + city + "}\n</tool_call>"},
      {ToolFamily::kQwenXml,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + city + "}\n</tool_call>"},
      {ToolFamily::kGlm, "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + city + "}\n</tool_call>"},
      {ToolFamily::kMistral, "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " + city + "}]"},
      {ToolFamily::kMistralNames, "[TOOL_CALLS]weather[ARGS]" + city},
      {ToolFamily::kLlama, "{\"name\": \"weather\", \"parameters\": " + city + "}"},
      {ToolFamily::kPythonic, "[{\"name\": \"weather\", \"parameters\": " + city + "}]"},
      {ToolFamily::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" + city +
           "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolFamily::kDeepSeekBare, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + city +
                                      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolFamily::kHarmony,
       "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + city}};
  ASSERT_EQ(answers.size(), std::size(kToolFamilies));
  for (const auto& [family, answer] : answers) {
    constraint::Machine machine = machine_of({family, kTools});
    EXPECT_TRUE(constraint::accepts(machine, answer)) << answer;
    EXPECT_FALSE(constraint::accepts(machine, "Rome is warm.")) << answer;
    const AnswerWithTools read = read_tool_calls(answer, family, kTools);
    EXPECT_EQ(read.content, "");
    ASSERT_EQ(read.calls.size(), 1u) << answer;
    EXPECT_EQ(read.calls[0].name, "weather");
    EXPECT_EQ(Json::parse(read.calls[0].arguments), Json::parse(city));
    EXPECT_EQ(read.calls[0].arguments, city);
    // As it comes, arguments only grow.
    std::string before;
    for (std::size_t size = 0; size <= answer.size(); ++size) {
      const auto begun = begun_calls(std::string_view(answer).substr(0, size), family);
      ASSERT_LE(begun.size(), 1u);
      if (begun.empty()) {
        EXPECT_EQ(before, "");
        continue;
      }
      EXPECT_EQ(begun[0].name, "weather");
      EXPECT_TRUE(begun[0].arguments.starts_with(before)) << answer.substr(0, size);
      before = begun[0].arguments;
    }
    EXPECT_EQ(before, city);
    // Beyond the schema.
    std::string wrong = answer;
    wrong.replace(wrong.find(": 3}"), 3, ": 10");
    EXPECT_FALSE(constraint::accepts(machine, wrong)) << wrong;
    constraint::Machine other = machine_of({family, kTools, "now", true});
    EXPECT_FALSE(constraint::accepts(other, answer)) << answer;
  }
}

TEST(ForcedCalls, SeveralUnlessOneIsAskedFor) {
  const std::string one = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  constraint::Machine several = machine_of({ToolFamily::kHermes, kTools});
  EXPECT_TRUE(constraint::accepts(several, one + "\n" + one));
  EXPECT_EQ(read_tool_calls(one + "\n" + one, ToolFamily::kHermes).calls.size(), 2u);
  constraint::Machine single = machine_of({ToolFamily::kHermes, kTools, "", true});
  EXPECT_TRUE(constraint::accepts(single, one));
  EXPECT_FALSE(constraint::accepts(single, one + "\n" + one));
}

TEST(ForcedCalls, WhatIsWrongWithASchemaIsNamedWithItsTool) {
  Json tools = kTools;
  tools[0]["function"]["parameters"]["properties"]["city"]["format"] = "regex";
  try {
    (void)machine_of({ToolFamily::kHermes, tools});
    ADD_FAILURE() << "was compiled";
  } catch (const constraint::ConstraintError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'weather'"));
    EXPECT_THAT(error.what(), HasSubstr("/properties/city"));
    EXPECT_THAT(error.what(), HasSubstr("'format'"));
  }
}

}  // namespace
}  // namespace stoa::serve
