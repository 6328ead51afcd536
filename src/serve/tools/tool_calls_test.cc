#include "serve/tools/tool_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/begun_calls.h"

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
  EXPECT_EQ(read.calls[0].arguments, "{\"q\": \"Rome\"}");
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
  EXPECT_EQ(read.calls[0].arguments, "{\"a\": 1}");
}

TEST(ToolCalls, Llama) {
  const AnswerWithTools one =
      read_tool_calls("<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": \"};\"}}", ToolFamily::kLlama);
  ASSERT_EQ(one.calls.size(), 1u);
  EXPECT_EQ(one.calls[0].arguments, "{\"a\": \"};\"}");
  const AnswerWithTools two =
      read_tool_calls("{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"b\": 2}}",
                      ToolFamily::kLlama);
  ASSERT_EQ(two.calls.size(), 2u);
  EXPECT_EQ(two.calls[1].name, "g");
  EXPECT_EQ(read_tool_calls("{not json", ToolFamily::kLlama).content, "{not json");
  EXPECT_EQ(held_for_tools("Rome.", ToolFamily::kLlama), 0u);
  EXPECT_EQ(held_for_tools("{\"na", ToolFamily::kLlama), 4u);
}

Json tools_with_texts() {
  return Json::parse(R"([{"type": "function", "function": {"name": "find", "parameters":
      {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}, "a/~b": {}}}}}])");
}

TEST(ToolCalls, MistralWithNames) {
  const AnswerWithTools read =
      read_tool_calls("Well.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}", ToolFamily::kMistralNames);
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.content, "Well.");
  EXPECT_EQ(read.calls[0].name, "f");
  EXPECT_EQ(read.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(read.calls[1].name, "g");
  EXPECT_TRUE(read_tool_calls("[TOOL_CALLS]f[ARGS]{\"a\"", ToolFamily::kMistralNames).calls.empty());
}

TEST(ToolCalls, Pythonic) {
  const AnswerWithTools read = read_tool_calls(
      "[find(q='it\\'s', n=-2, x=[True, None, {\"k\": (1.5,)}]), a.now()]", ToolFamily::kPythonic);
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.calls[0].arguments, R"({"q":"it's","n":-2,"x":[true,null,{"k":[1.5]}]})");
  EXPECT_EQ(read.calls[1].name, "a.now");
  const AnswerWithTools lines = read_tool_calls(
      "<function_calls>\nfind(q=\"a\\u00e9\")\nnow()\n</function_calls>", ToolFamily::kPythonic);
  ASSERT_EQ(lines.calls.size(), 2u);
  EXPECT_EQ(lines.calls[0].arguments, "{\"q\":\"a\xC3\xA9\"}");
  for (const char* text :
       {"Rome (Italy) is warm.", "[1, 2]", "[find(q=open('x'))]", "[find(q=)]", "[find(", ""})
    EXPECT_EQ(read_tool_calls(text, ToolFamily::kPythonic).content, text);
}

TEST(ToolCalls, DeepSeek) {
  const AnswerWithTools read = read_tool_calls(
      "Wait.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```"
      "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      ToolFamily::kDeepSeek);
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.content, "Wait.");
  EXPECT_EQ(read.calls[0].name, "f");
  EXPECT_EQ(read.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(read.calls[1].name, "g");
}

TEST(ToolCalls, TagsWithArgumentsByTheirSchemas) {
  const Json tools = tools_with_texts();
  const AnswerWithTools qwen = read_tool_calls(
      "Look:\n<tool_call>\n<function=find>\n<parameter=q>\n12\nand "
      "13\n</parameter>\n<parameter=n>\n5\n</parameter>\n"
      "<parameter=a/~b>\n[1]\n</parameter>\n</function>\n</tool_call>",
      ToolFamily::kQwenXml, tools);
  ASSERT_EQ(qwen.calls.size(), 1u);
  EXPECT_EQ(qwen.content, "Look:");
  EXPECT_EQ(qwen.calls[0].arguments, R"({"q":"12\nand 13","n":5,"a/~b":[1]})");
  const AnswerWithTools glm = read_tool_calls(
      "<tool_call>find\n<arg_key>q</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n</arg_key>\n"
      "<arg_value>5</arg_value>\n</tool_call><tool_call>find</tool_call>",
      ToolFamily::kGlm, tools);
  ASSERT_EQ(glm.calls.size(), 2u);
  EXPECT_EQ(glm.calls[0].arguments, R"({"q":"12","n":5})");
  EXPECT_EQ(glm.calls[1].arguments, "{}");
}

TEST(ToolCalls, Harmony) {
  const AnswerWithTools read = read_tool_calls(
      "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
      ToolFamily::kHarmony);
  ASSERT_EQ(read.calls.size(), 1u);
  EXPECT_EQ(read.content, "");
  EXPECT_EQ(read.calls[0].name, "f");
  EXPECT_EQ(read.calls[0].arguments, "{\"a\": 1}");
  const AnswerWithTools plain = read_tool_calls(
      "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Rome.",
      ToolFamily::kHarmony);
  EXPECT_TRUE(plain.calls.empty());
  EXPECT_EQ(plain.content, "Rome.");
  EXPECT_EQ(read_tool_calls("Rome.", ToolFamily::kHarmony).content, "Rome.");
}

TEST(ToolCalls, FamiliesByTheirTemplates) {
  EXPECT_EQ(tool_family("{{ messages }}"), std::nullopt);
  EXPECT_EQ(tool_family("{% if tools %}<tool_call>"), ToolFamily::kHermes);
  EXPECT_EQ(tool_family("{% if tools %}[TOOL_CALLS]"), ToolFamily::kMistral);
  EXPECT_EQ(tool_family("{% if tools %}[TOOL_CALLS]{{ name }}[ARGS]"), ToolFamily::kMistralNames);
  EXPECT_EQ(tool_family("{% if tools %}<tool_call><function=f><parameter=k>"), ToolFamily::kQwenXml);
  EXPECT_EQ(tool_family("{% if tools %}<tool_call>f<arg_key>"), ToolFamily::kGlm);
  EXPECT_EQ(tool_family("{% if tools %}<｜tool▁calls▁begin｜>```json"), ToolFamily::kDeepSeek);
  EXPECT_EQ(tool_family("{% if tools %}<｜tool▁calls▁begin｜>"), ToolFamily::kDeepSeekBare);
  EXPECT_EQ(tool_family("{% if tools %}<|channel|>commentary to=functions.x"), ToolFamily::kHarmony);
  EXPECT_EQ(tool_family("{% if tools %}[func_name1(params_name1=1)]"), ToolFamily::kPythonic);
  EXPECT_EQ(tool_family("{% if tools %}{\"name\": f, \"parameters\": p}"), ToolFamily::kLlama);
}

// However the text is cut into pieces, what is said of it is what is said of it as a whole.
TEST(GrowingCalls, SayOfEveryBeginningWhatIsSaidOfItAlone) {
  const std::string a = R"({"name": "f", "arguments": {"text": "a \"<tool\" \\", "n": [1, {"x": "}"}]}})",
                    b = R"({ "id": [1, "]"], "parameters" : {"b": {}}, "name" : "g", "arguments": {} })",
                    none = R"({"name": 3, "arguments": {"c": 1}})";
  const std::vector<std::string> answers{
      "Text. <tool_call>\n" + a + "\n</tool_call>\n<tool_call>" + none + "</tool_call><tool_call>" + b,
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"t\": \"<tool_call>" + a,
      "Say [TOOL_CALLS] [" + a + ", 7, " + b + "," + none + "]",
      "[TOOL_CALLS]f[ARGS] {\"a\": [1, 2]}[TOOL_CALLS] g [ARGS]{\"b\": \"[TOOL_CALLS]{\"}",
      " <|python_tag|>" + a + "; " + b,
      "  [" + b + " , " + a + "]",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
      "1}\n```<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\": \"```json\"}<｜tool▁call▁end｜>",
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": "
      "1}<|call|><|start|>assistant to=functions.g<|channel|>commentary<|message|>{\"b\": {\"c\": []}}",
      "{[\"}]),\\\\,\"",
      ""};
  std::size_t most = 0;
  for (const ToolFamily family : kToolFamilies)
    for (const std::string& answer : answers)
      for (const std::size_t piece : {1, 2, 3, 7, 19}) {
        GrowingCalls growing(family);
        for (std::size_t size = 0;; size = std::min(answer.size(), size + piece)) {
          const std::string_view text = std::string_view(answer).substr(0, size);
          growing.read(text);
          EXPECT_EQ(growing.held(), held_for_tools(text, family)) << text;
          const std::vector<ToolCall> whole = begun_calls(text, family);
          ASSERT_EQ(growing.calls().size(), whole.size()) << text;
          for (std::size_t i = 0; i < whole.size(); ++i) {
            EXPECT_EQ(growing.calls()[i].name, whole[i].name) << text;
            EXPECT_EQ(growing.calls()[i].arguments, whole[i].arguments) << text;
          }
          most = std::max(most, whole.size());
          if (size == answer.size()) break;
        }
      }
  EXPECT_EQ(most, 2u);
}

}  // namespace
}  // namespace stoa::serve
