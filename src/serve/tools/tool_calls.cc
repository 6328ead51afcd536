#include "serve/tool_calls.h"

#include <algorithm>

#include "base/utf8.h"

namespace stoa::serve {
namespace {

constexpr std::string_view kHermesOpen = "<tool_call>", kHermesClose = "</tool_call>",
                           kMistralOpen = "[TOOL_CALLS]", kPythonTag = "<|python_tag|>";

std::string_view trimmed(std::string_view text) {
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
  return text;
}

std::optional<ToolCall> call_of(const Json& value) {
  if (!value.is_object()) return std::nullopt;
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string()) return std::nullopt;
  for (const char* key : {"arguments", "parameters"})
    if (const auto found = value.find(key); found != value.end()) {
      if (found->is_string()) return ToolCall{name->get<std::string>(), found->get<std::string>()};
      return ToolCall{name->get<std::string>(), found->dump()};
    }
  return ToolCall{name->get<std::string>(), "{}"};
}

// The calls of a JSON text: an object or a list of them; none where it is anything else.
std::vector<ToolCall> calls_in(std::string_view text) {
  std::vector<ToolCall> out;
  Json value;
  try {
    value = parse_json(trimmed(text));
  } catch (const ApiError&) {
    return {};
  }
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& item : list) {
    const auto call = call_of(item);
    if (!call) return {};
    out.push_back(*call);
  }
  return out;
}

AnswerWithTools read_hermes(std::string_view answer) {
  AnswerWithTools out;
  while (!answer.empty()) {
    const std::size_t open = answer.find(kHermesOpen);
    out.content += answer.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::string_view rest = answer.substr(open + kHermesOpen.size());
    const std::size_t close = rest.find(kHermesClose);
    const auto calls = calls_in(rest.substr(0, close));
    if (calls.empty())
      out.content += answer.substr(
          open, close == std::string_view::npos ? close : kHermesOpen.size() + close + kHermesClose.size());
    out.calls.insert(out.calls.end(), calls.begin(), calls.end());
    if (close == std::string_view::npos) break;
    answer = rest.substr(close + kHermesClose.size());
  }
  return out;
}

AnswerWithTools read_llama(std::string_view answer) {
  std::string_view text = trimmed(answer);
  if (text.starts_with(kPythonTag)) text.remove_prefix(kPythonTag.size());
  AnswerWithTools out{std::string(answer), {}};
  std::vector<ToolCall> calls = calls_in(text);
  // Several calls stand one after the other with semicolons.
  for (std::size_t at = 0; calls.empty() && (at = text.find("};", at)) != std::string_view::npos; ++at) {
    const auto first = calls_in(text.substr(0, at + 1));
    if (first.empty()) continue;
    const AnswerWithTools more = read_llama(text.substr(at + 2));
    if (more.calls.empty()) break;
    calls = first;
    calls.insert(calls.end(), more.calls.begin(), more.calls.end());
  }
  if (calls.empty()) return out;
  return {"", std::move(calls)};
}

}  // namespace

std::optional<ToolFamily> tool_family(std::string_view chat_template) {
  const auto has = [&](std::string_view word) { return chat_template.find(word) != std::string_view::npos; };
  if (!has("tools")) return std::nullopt;
  if (has(kHermesOpen)) return ToolFamily::kHermes;
  if (has(kMistralOpen)) return ToolFamily::kMistral;
  if (has(kPythonTag) || has("\"parameters\"")) return ToolFamily::kLlama;
  return std::nullopt;
}

AnswerWithTools read_tool_calls(std::string_view answer, ToolFamily family) {
  AnswerWithTools out;
  switch (family) {
    case ToolFamily::kHermes:
      out = read_hermes(answer);
      break;
    case ToolFamily::kMistral: {
      const std::size_t open = answer.find(kMistralOpen);
      if (open != std::string_view::npos) out.calls = calls_in(answer.substr(open + kMistralOpen.size()));
      out.content = answer.substr(0, out.calls.empty() ? std::string_view::npos : open);
      break;
    }
    case ToolFamily::kLlama:
      out = read_llama(answer);
  }
  if (!out.calls.empty()) out.content = trimmed(out.content);
  return out;
}

std::size_t held_for_tools(std::string_view answer, ToolFamily family) {
  if (family == ToolFamily::kLlama) {
    const std::string_view text = trimmed(answer);
    const bool may_begin =
        text.empty() || text.front() == '{' || text.starts_with(kPythonTag) || kPythonTag.starts_with(text);
    return may_begin ? answer.size() : 0;
  }
  const std::string_view open = family == ToolFamily::kHermes ? kHermesOpen : kMistralOpen;
  if (const std::size_t at = answer.find(open); at != std::string_view::npos) return answer.size() - at;
  for (std::size_t n = std::min(open.size() - 1, answer.size()); n > 0; --n)
    if (answer.ends_with(open.substr(0, n))) return n;
  return 0;
}

}  // namespace stoa::serve
