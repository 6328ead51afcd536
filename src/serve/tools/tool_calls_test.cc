#include "serve/tool_calls.h"

#include <gtest/gtest.h>

namespace stoa::serve {
namespace {

TEST(ToolCalls, Hermes) {
  const std::string answer =
      "Let me look.\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"Rome\"}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  const AnswerWithTools read = read_tool_calls(answer, ToolFamily::kHermes);
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.content, "Let me look.");
  EXPECT_EQ(read.calls[0].name, "find");
  EXPECT_EQ(read.calls[0].arguments, "{\"q\":\"Rome\"}");
  EXPECT_EQ(read.calls[1].arguments, "{}");
  const std::string broken = "<tool_call>{\"name\": 5}</tool_call> rest";
  EXPECT_TRUE(read_tool_calls(broken, ToolFamily::kHermes).calls.empty());
  EXPECT_EQ(read_tool_calls(broken, ToolFamily::kHermes).content, broken);
  EXPECT_EQ(held_for_tools("say <tool", ToolFamily::kHermes), 5u);
  EXPECT_EQ(held_for_tools("say <tool_call>{\"na", ToolFamily::kHermes), 15u);
  EXPECT_EQ(held_for_tools("say <b>", ToolFamily::kHermes), 0u);
}

TEST(ToolCalls, Mistral) {
  const AnswerWithTools read =
      read_tool_calls("[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", ToolFamily::kMistral);
  ASSERT_EQ(read.calls.size(), 1u);
  EXPECT_EQ(read.content, "");
  EXPECT_EQ(read.calls[0].arguments, "{\"a\":1}");
}

TEST(ToolCalls, Llama) {
  const AnswerWithTools one =
      read_tool_calls("<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": \"};\"}}", ToolFamily::kLlama);
  ASSERT_EQ(one.calls.size(), 1u);
  EXPECT_EQ(one.calls[0].arguments, "{\"a\":\"};\"}");
  const AnswerWithTools two =
      read_tool_calls("{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"b\": 2}}",
                      ToolFamily::kLlama);
  ASSERT_EQ(two.calls.size(), 2u);
  EXPECT_EQ(two.calls[1].name, "g");
  EXPECT_EQ(read_tool_calls("{not json", ToolFamily::kLlama).content, "{not json");
  EXPECT_EQ(held_for_tools("Rome.", ToolFamily::kLlama), 0u);
  EXPECT_EQ(held_for_tools("{\"na", ToolFamily::kLlama), 4u);
}

TEST(ToolCalls, FamiliesByTheirTemplates) {
  EXPECT_EQ(tool_family("{{ messages }}"), std::nullopt);
  EXPECT_EQ(tool_family("{% if tools %}<tool_call>"), ToolFamily::kHermes);
  EXPECT_EQ(tool_family("{% if tools %}[TOOL_CALLS]"), ToolFamily::kMistral);
  EXPECT_EQ(tool_family("{% if tools %}{\"name\": f, \"parameters\": p}"), ToolFamily::kLlama);
}

}  // namespace
}  // namespace stoa::serve
