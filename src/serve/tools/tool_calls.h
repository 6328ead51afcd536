// Calls of tools in a model's answer, in the form of its family.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request_body.h"

namespace stoa::serve {

enum class ToolFamily : std::uint8_t {
  kHermes,        // <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number (Hermes, Qwen)
  kMistral,       // [TOOL_CALLS] and a JSON list
  kMistralNames,  // [TOOL_CALLS]name[ARGS]{…}, any number (since Mistral's tokenizer 11)
  kLlama,  // the answer is {"name": …, "parameters": {…}}, perhaps after <|python_tag|>; several with ;
  kPythonic,      // the answer is [name(key=value, …), …] (Llama 4), or a call a line in tags (OLMo 3)
  kDeepSeek,      // sections between special tokens, arguments in ```json (V3, R1)
  kDeepSeekBare,  // the same with bare arguments (V3.1)
  kQwenXml,       // <tool_call><function=name><parameter=key>value… (Qwen3-Coder)
  kGlm,           // <tool_call>name<arg_key>key</arg_key><arg_value>value… (GLM 4.5)
  kHarmony        // messages to=functions.name in channels (gpt-oss)
};
inline constexpr ToolFamily kToolFamilies[] = {
    ToolFamily::kHermes,   ToolFamily::kMistral,  ToolFamily::kMistralNames, ToolFamily::kLlama,
    ToolFamily::kPythonic, ToolFamily::kDeepSeek, ToolFamily::kDeepSeekBare, ToolFamily::kQwenXml,
    ToolFamily::kGlm,      ToolFamily::kHarmony};

// By the words of a chat template; none: it says nothing of tools.
std::optional<ToolFamily> tool_family(std::string_view chat_template);

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text, as the model wrote it where it did
};

struct AnswerWithTools {
  std::string content;
  std::vector<ToolCall> calls;
};

// What is no proper call stays in the content. `tools`: those of the request, whose schemas say which
// arguments of kQwenXml and kGlm are texts.
AnswerWithTools read_tool_calls(std::string_view answer, ToolFamily family, const Json& tools = {});

// Calls of an answer that may still grow: those whose names are complete and whose arguments have begun, as
// far as the text goes. Only arguments in JSON are seen. A longer answer has longer arguments.
std::vector<ToolCall> begun_calls(std::string_view answer, ToolFamily family);

// How many bytes at the end of an answer that grows may belong to a call, and are held back.
std::size_t held_for_tools(std::string_view answer, ToolFamily family);

}  // namespace stoa::serve
