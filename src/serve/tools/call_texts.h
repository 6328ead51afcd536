// The forms in which families of models write one call, or several.
#pragma once

#include <string_view>

#include "serve/tools/tool_calls.h"

namespace stoa::serve {

inline constexpr std::string_view kHermesOpen = "<tool_call>", kHermesClose = "</tool_call>",
                                  kMistralOpen = "[TOOL_CALLS]", kMistralArguments = "[ARGS]",
                                  kPythonTag = "<|python_tag|>", kDeepSeekOpen = "<｜tool▁calls▁begin｜>",
                                  kDeepSeekClose = "<｜tool▁calls▁end｜>",
                                  kDeepSeekCall = "<｜tool▁call▁begin｜>",
                                  kDeepSeekCallEnd = "<｜tool▁call▁end｜>", kDeepSeekName = "<｜tool▁sep｜>",
                                  kHarmonyChannel = "<|channel|>", kHarmonyMessage = "<|message|>",
                                  kHarmonyForm = "<|constrain|>", kHarmonyCall = "<|call|>",
                                  kHarmonyTool = "to=functions.";

// What stands before the calls of an answer; empty: the family has no such mark.
std::string_view opening_mark(ToolFamily family);
// Without white space at both ends.
std::string_view trimmed(std::string_view text);

// The calls of a JSON text: an object or a list of them; none where it is anything else.
std::vector<ToolCall> json_calls(std::string_view text);
// The parts of the JSON list that a text begins with; the last one may end too early.
std::vector<std::string_view> json_items(std::string_view text);
// The call that the object at the beginning of a JSON text makes, once its arguments have begun.
std::optional<ToolCall> begun_call(std::string_view text);
// Calls as Python writes them, with literals as arguments, separated by commas or lines; none: it is
// anything else.
std::vector<ToolCall> python_calls(std::string_view text);
// The call between <tool_call> and </tool_call>, of Qwen3-Coder and GLM.
std::vector<ToolCall> qwen_xml_call(std::string_view text, const Json& tools);
std::vector<ToolCall> glm_call(std::string_view text, const Json& tools);
AnswerWithTools read_harmony(std::string_view answer);

}  // namespace stoa::serve
