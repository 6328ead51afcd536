// Calls of tools in a model's answer, in the form of its family.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request_body.h"

namespace stoa::serve {

enum class ToolFamily : std::uint8_t {
  kHermes,   // <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number (Hermes, Qwen)
  kMistral,  // [TOOL_CALLS] and a JSON list
  kLlama     // the answer is {"name": …, "parameters": {…}}, perhaps after <|python_tag|>; several with ;
};

// By the words of a chat template; none: it says nothing of tools.
std::optional<ToolFamily> tool_family(std::string_view chat_template);

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text
};

struct AnswerWithTools {
  std::string content;
  std::vector<ToolCall> calls;
};

// What is no proper call stays in the content.
AnswerWithTools read_tool_calls(std::string_view answer, ToolFamily family);

// How many bytes at the end of an answer that grows may belong to a call, and are held back.
std::size_t held_for_tools(std::string_view answer, ToolFamily family);

}  // namespace stoa::serve
