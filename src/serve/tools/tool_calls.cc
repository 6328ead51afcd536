#include "serve/tools/tool_calls.h"

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

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

// Calls between `open` and `close`, or the end of the answer.
AnswerWithTools read_between(std::string_view answer, std::string_view open, std::string_view close,
                             const std::function<std::vector<ToolCall>(std::string_view)>& read) {
  AnswerWithTools out;
  while (!answer.empty()) {
    const std::size_t begin = answer.find(open);
    out.content += answer.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::string_view rest = answer.substr(begin + open.size());
    const std::size_t end = rest.find(close);
    const auto calls = read(rest.substr(0, end));
    if (calls.empty())
      out.content +=
          answer.substr(begin, end == std::string_view::npos ? end : open.size() + end + close.size());
    out.calls.insert(out.calls.end(), calls.begin(), calls.end());
    if (end == std::string_view::npos) break;
    answer = rest.substr(end + close.size());
  }
  return out;
}

AnswerWithTools read_mistral(std::string_view answer, bool names) {
  AnswerWithTools out;
  const std::size_t open = answer.find(kMistralOpen);
  if (open != std::string_view::npos) {
    out.calls = json_calls(answer.substr(open + kMistralOpen.size()));
    for (std::string_view rest = answer.substr(open); names && rest.starts_with(kMistralOpen);) {
      rest.remove_prefix(kMistralOpen.size());
      const std::string_view one = rest.substr(0, rest.find(kMistralOpen));
      rest.remove_prefix(one.size());
      const std::size_t arguments = one.find(kMistralArguments);
      if (arguments == std::string_view::npos) continue;
      const std::string_view text = trimmed(one.substr(arguments + kMistralArguments.size()));
      if (Json::accept(text))
        out.calls.push_back({std::string(trimmed(one.substr(0, arguments))), std::string(text)});
    }
  }
  out.content = answer.substr(0, out.calls.empty() ? std::string_view::npos : open);
  return out;
}

AnswerWithTools read_llama(std::string_view answer) {
  std::string_view text = trimmed(answer);
  if (text.starts_with(kPythonTag)) text.remove_prefix(kPythonTag.size());
  AnswerWithTools out{std::string(answer), {}};
  std::vector<ToolCall> calls = json_calls(text);
  // Several calls stand one after the other with semicolons.
  for (std::size_t at = 0; calls.empty() && (at = text.find("};", at)) != std::string_view::npos; ++at) {
    const auto first = json_calls(text.substr(0, at + 1));
    if (first.empty()) continue;
    const AnswerWithTools more = read_llama(text.substr(at + 2));
    if (more.calls.empty()) break;
    calls = first;
    calls.insert(calls.end(), more.calls.begin(), more.calls.end());
  }
  if (calls.empty()) return out;
  return {"", std::move(calls)};
}

AnswerWithTools read_pythonic(std::string_view answer) {
  std::vector<ToolCall> calls = json_calls(answer);
  if (calls.empty()) calls = python_calls(answer);
  if (calls.empty()) return {std::string(answer), {}};
  return {"", std::move(calls)};
}

// "function<sep>name\n```json\n{…}\n```", or "name<sep>{…}".
std::vector<ToolCall> deepseek_call(std::string_view text) {
  const std::size_t at = text.find(kDeepSeekName);
  if (at == std::string_view::npos) return {};
  std::string_view name = trimmed(text.substr(0, at)), rest = text.substr(at + kDeepSeekName.size());
  constexpr std::string_view kFence = "```";
  if (const std::size_t fence = rest.find("```json"); fence != std::string_view::npos) {
    name = trimmed(rest.substr(0, fence));
    rest = trimmed(rest.substr(fence + 7));
    if (rest.ends_with(kFence)) rest.remove_suffix(kFence.size());
  }
  rest = trimmed(rest);
  if (name.empty() || !Json::accept(rest)) return {};
  return {{std::string(name), std::string(rest)}};
}

AnswerWithTools read_deepseek(std::string_view answer) {
  AnswerWithTools out = read_between(answer, kDeepSeekCall, kDeepSeekCallEnd, deepseek_call);
  if (out.calls.empty()) return out;
  for (const std::string_view mark : {kDeepSeekOpen, kDeepSeekClose})
    if (const std::size_t at = out.content.find(mark); at != std::string::npos)
      out.content.erase(at, mark.size());
  return out;
}

}  // namespace

std::string_view opening_mark(ToolFamily family) {
  switch (family) {
    case ToolFamily::kHarmony:
    case ToolFamily::kLlama:
    case ToolFamily::kPythonic:
      return {};
    case ToolFamily::kMistral:
    case ToolFamily::kMistralNames:
      return kMistralOpen;
    case ToolFamily::kDeepSeek:
    case ToolFamily::kDeepSeekBare:
      return kDeepSeekOpen;
    default:
      return kHermesOpen;
  }
}

std::string_view trimmed(std::string_view text) {
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
  return text;
}

std::vector<ToolCall> json_calls(std::string_view text) {
  std::vector<ToolCall> out;
  Json value;
  try {
    value = parse_json(trimmed(text));
  } catch (const ApiError&) {
    return {};
  }
  const bool several = value.is_array();
  const Json list = several ? value : Json::array({value});
  const auto texts = several ? json_items(trimmed(text)) : std::vector<std::string_view>{text};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto call = call_of(list[i]);
    if (!call) return {};
    out.push_back(begun_call(texts[i]).value_or(*call));
  }
  return out;
}

std::optional<ToolFamily> tool_family(std::string_view chat_template) {
  const auto has = [&](std::string_view word) { return chat_template.find(word) != std::string_view::npos; };
  if (!has("tools")) return std::nullopt;
  if (has(kDeepSeekOpen)) return has("```json") ? ToolFamily::kDeepSeek : ToolFamily::kDeepSeekBare;
  if (has(kHarmonyChannel) && has("functions")) return ToolFamily::kHarmony;
  if (has("<parameter=")) return ToolFamily::kQwenXml;
  if (has("<arg_key>")) return ToolFamily::kGlm;
  if (has(kHermesOpen)) return ToolFamily::kHermes;
  if (has(kMistralOpen)) return has(kMistralArguments) ? ToolFamily::kMistralNames : ToolFamily::kMistral;
  if (has("func_name1(") || has("<function_calls>")) return ToolFamily::kPythonic;
  if (has(kPythonTag) || has("\"parameters\"")) return ToolFamily::kLlama;
  return std::nullopt;
}

AnswerWithTools read_tool_calls(std::string_view answer, ToolFamily family, const Json& tools) {
  const auto tagged = [&](const std::function<std::vector<ToolCall>(std::string_view)>& read) {
    return read_between(answer, kHermesOpen, kHermesClose, [&](std::string_view text) {
      auto calls = json_calls(text);  // as a call that is forced is written
      return calls.empty() ? read(text) : calls;
    });
  };
  AnswerWithTools out;
  switch (family) {
    case ToolFamily::kHermes:
      out = read_between(answer, kHermesOpen, kHermesClose, json_calls);
      break;
    case ToolFamily::kQwenXml:
      out = tagged([&](std::string_view text) { return qwen_xml_call(text, tools); });
      break;
    case ToolFamily::kGlm:
      out = tagged([&](std::string_view text) { return glm_call(text, tools); });
      break;
    case ToolFamily::kMistral:
    case ToolFamily::kMistralNames:
      out = read_mistral(answer, family == ToolFamily::kMistralNames);
      break;
    case ToolFamily::kLlama:
      out = read_llama(answer);
      break;
    case ToolFamily::kPythonic:
      out = read_pythonic(answer);
      break;
    case ToolFamily::kDeepSeek:
    case ToolFamily::kDeepSeekBare:
      out = read_deepseek(answer);
      break;
    case ToolFamily::kHarmony:
      out = read_harmony(answer);
  }
  if (!out.calls.empty()) out.content = trimmed(out.content);
  return out;
}

std::size_t held_for_tools(std::string_view answer, ToolFamily family) {
  if (family == ToolFamily::kHarmony) return answer.size();  // the channel says what is content
  if (family == ToolFamily::kLlama || family == ToolFamily::kPythonic) {
    const std::string_view text = trimmed(answer);
    const bool python = family == ToolFamily::kPythonic;
    const bool may_begin = text.empty() || text.front() == (python ? '[' : '{') ||
                           (python && text.front() == '<') || text.starts_with(kPythonTag) ||
                           kPythonTag.starts_with(text);
    return may_begin ? answer.size() : 0;
  }
  const std::string_view open = opening_mark(family);
  if (const std::size_t at = answer.find(open); at != std::string_view::npos) return answer.size() - at;
  for (std::size_t n = std::min(open.size() - 1, answer.size()); n > 0; --n)
    if (answer.ends_with(open.substr(0, n))) return n;
  return 0;
}

}  // namespace stoa::serve
