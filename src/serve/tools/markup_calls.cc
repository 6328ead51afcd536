// Calls written with tags: Qwen3-Coder, GLM, and the channels of gpt-oss.
#include <algorithm>

#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

// Whether the tool's schema says that the argument is a text and nothing else.
bool is_text(const Json& tools, std::string_view name, const std::string& key) {
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (function["name"] != name) continue;
    const Json* at = &function;
    for (const std::string& member :
         {std::string("parameters"), std::string("properties"), key, std::string("type")}) {
      const auto found = at->is_object() ? at->find(member) : at->end();
      if (found == at->end()) return false;
      at = &*found;
    }
    return *at == "string";
  }
  return false;
}

Json argument_of(std::string_view text, bool as_text) {
  if (!as_text) {
    try {
      return parse_json(trimmed(text));
    } catch (const ApiError&) {
    }
  }
  return std::string(text);
}

std::string_view between(std::string_view text, std::string_view open, std::string_view close,
                         std::size_t& at) {
  const std::size_t begin = text.find(open, at);
  if (begin == std::string_view::npos) return at = begin, std::string_view();
  const std::size_t first = begin + open.size();
  const std::size_t end = text.find(close, first);
  at = end == std::string_view::npos ? text.size() : end + close.size();
  return text.substr(first, end == std::string_view::npos ? end : end - first);
}

std::vector<ToolCall> call_with(std::string_view name, const Json& arguments) {
  return {{std::string(name), arguments.dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

std::string valid_key(std::string_view key) {
  return Json::parse(Json(std::string(key)).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace

// <function=name>\n<parameter=key>\nvalue\n</parameter>\n…</function>
std::vector<ToolCall> qwen_xml_call(std::string_view text, const Json& tools) {
  std::size_t at = 0;
  const std::string_view function = between(text, "<function=", "</function>", at);
  const std::size_t named = function.find('>');
  if (at == std::string_view::npos || named == std::string_view::npos) return {};
  const std::string name = valid_key(trimmed(function.substr(0, named)));
  const std::string_view rest = function.substr(named + 1);
  Json arguments = Json::object();
  for (at = 0;;) {
    const std::string_view parameter = between(rest, "<parameter=", "</parameter>", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = parameter.find('>');
    if (end == std::string_view::npos) return {};
    const std::string key = valid_key(trimmed(parameter.substr(0, end)));
    std::string_view value = parameter.substr(end + 1);
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    arguments[key] = argument_of(value, is_text(tools, name, key));
  }
  return call_with(name, arguments);
}

// name\n<arg_key>key</arg_key>\n<arg_value>value</arg_value>…
std::vector<ToolCall> glm_call(std::string_view text, const Json& tools) {
  const std::size_t keys = text.find("<arg_key>");
  const std::string name = valid_key(trimmed(text.substr(0, keys)));
  if (name.empty() || name.find_first_of("\n{<") != std::string::npos) return {};
  Json arguments = Json::object();
  for (std::size_t at = 0;;) {
    const std::string_view named = between(text, "<arg_key>", "</arg_key>", at);
    if (at == std::string_view::npos) break;
    const std::string_view value = between(text, "<arg_value>", "</arg_value>", at);
    if (at == std::string_view::npos) return {};
    const std::string key = valid_key(trimmed(named));
    arguments[key] = argument_of(value, is_text(tools, name, key));
  }
  return call_with(name, arguments);
}

// <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>, or with the recipient
// before the channel. What is on the final channel, or on another without a recipient, is content; analysis
// is not.
AnswerWithTools read_harmony(std::string_view answer) {
  AnswerWithTools out;
  if (answer.find(kHarmonyMessage) == std::string_view::npos) return {std::string(answer), {}};
  while (!answer.empty()) {
    const std::size_t at = answer.find(kHarmonyMessage);
    if (at == std::string_view::npos) break;
    const std::string_view head = answer.substr(0, at);
    answer.remove_prefix(at + kHarmonyMessage.size());
    std::size_t end = answer.size(), skip = 0;
    for (const std::string_view mark : {std::string_view("<|end|>"), kHarmonyCall,
                                        std::string_view("<|return|>"), std::string_view("<|start|>")})
      if (const std::size_t found = answer.find(mark); found < end) end = found, skip = mark.size();
    const std::string_view text = answer.substr(0, end);
    answer.remove_prefix(std::min(answer.size(), end + skip));
    if (const std::size_t to = head.find(kHarmonyTool); to != std::string_view::npos) {
      const std::string_view name = head.substr(to + kHarmonyTool.size());
      const std::string_view arguments = trimmed(text);
      if (Json::accept(arguments))
        out.calls.push_back(
            {std::string(name.substr(0, name.find_first_of(" <\n"))), std::string(arguments)});
      else
        out.content += text;
    } else if (head.find("analysis") == std::string_view::npos) {
      out.content += text;
    }
  }
  return out;
}

}  // namespace stoa::serve
