// Calls as their text comes, for streams: of families whose arguments are JSON.
#include <algorithm>

#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
}

// The value that the text begins with, or what there is of it.
std::string_view value_at(std::string_view text, bool& complete) {
  int depth = 0;
  bool inside = false;  // of a string
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\') ++i;
      inside = c != '"';
      if (!inside && depth == 0) return complete = true, text.substr(0, i + 1);
      continue;
    }
    if (c == '"') inside = true;
    if (c == '{' || c == '[') ++depth;
    const bool closes = c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',')) return complete = true, text.substr(0, i);
    if (closes && --depth == 0) return complete = true, text.substr(0, i + 1);
  }
  complete = false;
  return text;
}

void add_arguments(std::vector<ToolCall>& calls, std::string_view name, std::string_view text) {
  bool complete = false;
  text = without_space(text);
  if (!text.starts_with('{') || name.empty()) return;
  calls.push_back({std::string(name), std::string(value_at(text, complete))});
}

void add_object(std::vector<ToolCall>& calls, std::string_view text) {
  if (const auto call = begun_call(text)) calls.push_back(*call);
}

// Calls behind each `open`, up to the next one.
template <class Add>
void each_behind(std::string_view answer, std::string_view open, Add add) {
  for (std::size_t at = answer.find(open); at != std::string_view::npos;) {
    const std::size_t begin = at + open.size();
    at = answer.find(open, begin);
    add(answer.substr(begin, at == std::string_view::npos ? at : at - begin));
  }
}

}  // namespace

std::vector<std::string_view> json_items(std::string_view text) {
  std::vector<std::string_view> out;
  if (!text.starts_with('[')) return out;
  for (text.remove_prefix(1);;) {
    text = without_space(text);
    if (text.empty() || text.front() == ']') return out;
    bool complete = false;
    out.push_back(value_at(text, complete));
    text = without_space(text.substr(out.back().size()));
    if (!complete || !text.starts_with(',')) return out;
    text.remove_prefix(1);
  }
}

std::optional<ToolCall> begun_call(std::string_view text) {
  std::optional<std::string> name, arguments;
  text = without_space(text);
  if (!text.starts_with('{')) return std::nullopt;
  for (text.remove_prefix(1);;) {
    bool complete = false;
    text = without_space(text);
    const std::string_view key = value_at(text, complete);
    text = without_space(text.substr(key.size()));
    if (!complete || !key.starts_with('"') || !text.starts_with(':')) break;
    text = without_space(text.substr(1));
    const std::string_view value = value_at(text, complete);
    text = without_space(text.substr(value.size()));
    if (key == "\"name\"" && complete && !name) {
      const Json parsed = Json::parse(value, nullptr, false);
      if (!parsed.is_string()) return std::nullopt;
      name = parsed.get<std::string>();
    }
    if ((key == "\"arguments\"" || key == "\"parameters\"") && value.starts_with('{') && !arguments)
      arguments = std::string(value);
    if (!complete || !text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  if (!name || !arguments) return std::nullopt;
  return ToolCall{*name, *arguments};
}

std::vector<ToolCall> begun_calls(std::string_view answer, ToolFamily family) {
  std::vector<ToolCall> calls;
  const auto list = [&](std::string_view text) {
    for (const std::string_view item : json_items(without_space(text))) add_object(calls, item);
  };
  switch (family) {
    case ToolFamily::kHermes:
    case ToolFamily::kQwenXml:
    case ToolFamily::kGlm:
      each_behind(answer, kHermesOpen, [&](std::string_view text) { add_object(calls, text); });
      break;
    case ToolFamily::kMistral:
      if (const std::size_t at = answer.find(kMistralOpen); at != std::string_view::npos)
        list(answer.substr(at + kMistralOpen.size()));
      break;
    case ToolFamily::kMistralNames:
      each_behind(answer, kMistralOpen, [&](std::string_view text) {
        const std::size_t at = text.find(kMistralArguments);
        if (at != std::string_view::npos)
          add_arguments(calls, trimmed(text.substr(0, at)), text.substr(at + kMistralArguments.size()));
      });
      break;
    case ToolFamily::kLlama: {
      std::string_view text = without_space(answer);
      if (text.starts_with(kPythonTag)) text.remove_prefix(kPythonTag.size());
      add_object(calls, text);
      break;
    }
    case ToolFamily::kPythonic:
      list(answer);
      break;
    case ToolFamily::kDeepSeek:
    case ToolFamily::kDeepSeekBare:
      each_behind(answer, kDeepSeekCall, [&](std::string_view text) {
        const std::size_t at = text.find(kDeepSeekName);
        if (at == std::string_view::npos) return;
        const std::string_view rest = text.substr(at + kDeepSeekName.size());
        const std::size_t fence = rest.find("```json");
        if (fence != std::string_view::npos)
          add_arguments(calls, trimmed(rest.substr(0, fence)), rest.substr(fence + 7));
        else
          add_arguments(calls, trimmed(text.substr(0, at)), rest);
      });
      break;
    case ToolFamily::kHarmony:
      each_behind(answer, kHarmonyTool, [&](std::string_view text) {
        const std::size_t at = text.find(kHarmonyMessage);
        if (at != std::string_view::npos)
          add_arguments(calls, text.substr(0, text.find_first_of(" <\n")),
                        text.substr(at + kHarmonyMessage.size()));
      });
  }
  return calls;
}

}  // namespace stoa::serve
