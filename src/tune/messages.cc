#include "tune/messages.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "tune/record_fields.h"

namespace stoa::tune {
namespace {

struct RoleName {
  std::string_view name, role;
};
// Names that files use, and the role that templates know.
constexpr std::array kRoles{
    RoleName{"system", "system"},
    RoleName{"developer", "developer"},
    RoleName{"user", "user"},
    RoleName{"assistant", "assistant"},
    RoleName{"tool", "tool"},
    RoleName{"ipython", "ipython"},
    RoleName{"human", "user"},
    RoleName{"gpt", "assistant"},
    RoleName{"bot", "assistant"},
    RoleName{"model", "assistant"},
    RoleName{"chatgpt", "assistant"},
    RoleName{"bard", "assistant"},
    RoleName{"bing", "assistant"},
    RoleName{"observation", "tool"},
    RoleName{"function", "tool"},
    RoleName{"function_response", "tool"},
    RoleName{"function_call", "assistant"},
};
constexpr std::string_view kCall = "function_call";  // ShareGPT: a message that is nothing but a call

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::string role_of(const std::string& name, const std::string& where) {
  const std::string wanted = lower(name);
  std::vector<std::string> names;
  for (const RoleName& r : kRoles) {
    if (r.name == wanted) return std::string(r.role);
    names.emplace_back(r.name);
  }
  fail<DataError>("{}: no role '{}'{}; expected system, user, assistant or tool", where, name,
                  did_you_mean(wanted, names));
}

// Arguments of a call: templates take an object, OpenAI's files hold its text.
Json call_of(const Json& function, const std::string& where) {
  require<DataError>(function.is_object() && function.contains("name") && function["name"].is_string(),
                     "{}: a tool call needs the \"name\" of a function", where);
  Json arguments = Json::object();  // of a call without any
  for (const char* name : {"parameters", "arguments"})
    if (function.contains(name) && !is_nothing(function[name])) arguments = function[name];
  if (arguments.is_string()) {
    Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
    if (parsed.is_object()) arguments = std::move(parsed);
  }
  require<DataError>(arguments.is_object(), "{}: the arguments of '{}' are {}, expected a JSON object", where,
                     function["name"].get<std::string>(), beginning_of(arguments));
  return {{"type", "function"}, {"function", {{"name", function["name"]}, {"arguments", arguments}}}};
}

// Text, or a list of parts of type text, or nothing where there are tool calls.
std::string content_of(const Json& message, const char* key, const std::string& where) {
  const auto found = message.find(key);
  if (found == message.end() || found->is_null()) {
    require<DataError>(message.contains("tool_calls") || message.contains(kCall), "{}: no \"{}\"", where,
                       key);
    return {};
  }
  if (found->is_string()) return found->get<std::string>();
  require<DataError>(found->is_array(), "{}: \"{}\" is {}, expected text", where, key, found->type_name());
  std::string text;
  for (const Json& part : *found) {
    const bool typed = part.is_object() && part.contains("type") && part["type"].is_string();
    const std::string type = typed ? part["type"].get<std::string>() : part.type_name();
    require<DataError>(typed && part.contains("text") && part["text"].is_string(),
                       "{}: a part of type '{}'; Stoa trains on text only", where, type);
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

bool weight_of(const Json& message, const std::string& where) {
  const auto found = message.find("weight");
  if (found == message.end() || found->is_null()) return true;
  require<DataError>(found->is_number() && (*found == 0 || *found == 1),
                     "{}: weight {}, expected 0 (not trained) or 1", where, found->dump());
  return *found == 1;
}

// ShareGPT: the text of a message that calls a function is the call, or a list of them.
Json calls_in_text(const std::string& text, const std::string& where) {
  const Json parsed = Json::parse(text, nullptr, false);
  require<DataError>(parsed.is_object() || parsed.is_array(),
                     "{}: a message from function_call is the JSON of a call, {{\"name\", \"arguments\"}}",
                     where);
  Json calls = Json::array();
  if (parsed.is_object()) calls.push_back(call_of(parsed, where));
  if (parsed.is_array())
    for (const Json& call : parsed) calls.push_back(call_of(call, where));
  return calls;
}

bool is_answer(const Json& message) { return message["role"] == "assistant"; }

}  // namespace

void add_message(Conversation& conversation, std::string_view role, std::string_view content) {
  conversation.messages.push_back({{"role", role}, {"content", content}});
  conversation.trained.push_back(role == "assistant");
}

Conversation read_messages(const Json& list, const Place& place, std::string_view what) {
  require<DataError>(list.is_array() && !list.empty(), "{}: \"{}\" is not a list of messages", place.text(),
                     what);
  Conversation out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& given = list[i];
    const std::string where = fmt::format("{}: message {}", place.text(), i + 1);
    require<DataError>(given.is_object(), "{} is {}, expected an object", where, given.type_name());
    const bool named_from = !given.contains("role") && given.contains("from");
    const char *role_key = named_from ? "from" : "role", *text_key = named_from ? "value" : "content";
    require<DataError>(given.contains(role_key) && given[role_key].is_string(), "{} has no \"role\"", where);
    const auto& name = given[role_key].get_ref<const std::string&>();
    Json message = {{"role", role_of(name, where)}, {"content", content_of(given, text_key, where)}};
    for (const auto& [key, value] : given.items())  // name, tool_call_id, reasoning_content and the like
      if (key != role_key && key != text_key && key != "weight" && key != kCall && key != "tool_calls" &&
          !value.is_null())
        message[key] = value;
    Json calls = Json::array();
    if (given.contains("tool_calls") && !given["tool_calls"].is_null()) {
      require<DataError>(given["tool_calls"].is_array(), "{}: \"tool_calls\" is not a list", where);
      for (const Json& call : given["tool_calls"])
        calls.push_back(
            call_of(call.is_object() && call.contains("function") ? call["function"] : call, where));
    }
    if (given.contains(kCall) && given[std::string(kCall)].is_object())
      calls.push_back(call_of(given[std::string(kCall)], where));
    if (named_from && lower(name) == kCall) {
      calls = calls_in_text(message["content"].get<std::string>(), where);
      message["content"] = "";
    }
    if (!calls.empty()) {
      require<DataError>(is_answer(message), "{}: tool calls of role {}, expected of the assistant", where,
                         message["role"].get<std::string>());
      message["tool_calls"] = std::move(calls);
    }
    out.trained.push_back(is_answer(message) && weight_of(given, where));
    out.messages.push_back(std::move(message));
  }
  return out;
}

void check_order(const Conversation& conversation, const Place& place) {
  std::string before;
  bool called = false, asked = false;
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
    const Json& message = conversation.messages[i];
    const auto role = message["role"].get<std::string>();
    const auto wrong = [&](std::string_view why) {
      fail<DataError>("{}: roles out of order: message {} is of the {}{}{}; {}", place.text(), i + 1, role,
                      before.empty() ? "" : " and follows one of the ", before, why);
    };
    const bool tool = role == "tool" || role == "ipython";
    if ((role == "system" || role == "developer") && i > 0) wrong("a system message comes first");
    if (tool && !called && before != "tool") wrong("a tool answers a call of the assistant");
    if (role == "user" && before == "user") wrong("expected an answer of the assistant");
    if (role == "assistant" && before == "assistant" && !called) wrong("expected a message of the user");
    if (role == "assistant" && !asked) wrong("expected a message of the user first");
    asked = asked || role == "user";
    called = role == "assistant" && message.contains("tool_calls");
    before = tool ? "tool" : role;
    const bool says = message.contains("tool_calls") || message.contains("reasoning_content") ||
                      !message["content"].get_ref<const std::string&>().empty();
    require<DataError>(says || !conversation.trained[i], "{}: message {}: an empty answer cannot be trained",
                       place.text(), i + 1);
  }
}

Json read_tools(const Json& value, const Place& place) {
  Json tools = value;
  if (is_nothing(value)) return {};  // ShareGPT: a record without tools
  if (value.is_string()) tools = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
  require<DataError>(tools.is_array() || tools.is_null(), "{}: \"tools\" is not a list of tools",
                     place.text());
  return tools.is_array() && tools.empty() ? Json() : tools;
}

}  // namespace stoa::tune
