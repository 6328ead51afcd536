#include "serve/chat_messages.h"

#include <array>

#include "base/nearest.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;

Json read_tool_calls_of(const Json& calls, const std::string& place) {
  check(calls.is_array(), "messages", "{}.tool_calls must be a list", place);
  Json out = Json::array();
  for (const Json& call : calls) {
    const bool good = call.is_object() && call.contains("function") && call["function"].is_object() &&
                      call["function"].contains("name") && call["function"]["name"].is_string();
    check(good, "messages", "{}.tool_calls: each needs function.name", place);
    Json copy = call;
    if (!copy.contains("type")) copy["type"] = "function";
    Json& arguments = copy["function"]["arguments"];
    if (arguments.is_string()) {
      const auto text = arguments.get<std::string>();
      try {
        arguments = parse_json(text.empty() ? "{}" : text, "function.arguments");
      } catch (const ApiError& error) {
        reject("messages", "{}.tool_calls: {}", place, error.what());
      }
    }
    if (arguments.is_null()) arguments = Json::object();
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace

std::string text_of_content(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  check(content.is_array(), "messages", "{} must be a text or a list of parts", place);
  std::string out;
  for (const Json& part : content) {
    const bool typed = part.is_object() && part.contains("type") && part["type"].is_string();
    check(typed, "messages", "{}: a part needs a type", place);
    const auto type = part["type"].get<std::string>();
    check(type == "text" && part.contains("text") && part["text"].is_string(), "messages",
          "{}: a part of type '{}' is not supported; {{\"type\": \"text\", \"text\": …}} is", place,
          type.substr(0, 60));
    out += part["text"].get<std::string>();
  }
  return out;
}

Json read_messages(const RequestBody& body, const char* field) {
  const Json& list = body.at(field);
  check(list.is_array() && !list.empty(), field, "'{}' must be a list of messages, and not empty", field);
  check(list.size() <= kMostMessages, field, "'{}' has {} messages, at most {} are taken", field, list.size(),
        kMostMessages);
  static const std::vector<std::string> kRoles{"system", "developer", "user", "assistant", "tool"};
  Json out = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& message = list[i];
    const std::string place = fmt::format("{}[{}]", field, i);
    check(message.is_object(), field, "{} must be an object", place);
    check(message.contains("role") && message["role"].is_string(), field, "{} needs a role", place);
    std::string role = message["role"].get<std::string>();
    check(std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end(), field,
          "{}: unknown role '{}'{}; system, developer, user, assistant and tool are known", place,
          role.substr(0, 60), did_you_mean(role.substr(0, 60), kRoles));
    if (role == "developer") role = "system";
    Json made{{"role", role}};
    const bool calls =
        role == "assistant" && message.contains("tool_calls") && !message["tool_calls"].is_null();
    if (message.contains("content") && !message["content"].is_null()) {
      made["content"] = text_of_content(message["content"], place + ".content");
    } else {
      check(role == "assistant" || role == "tool", field, "{} needs content", place);
      made["content"] = "";
    }
    if (calls) made["tool_calls"] = read_tool_calls_of(message["tool_calls"], place);
    for (const char* key : {"name", "tool_call_id", "reasoning_content"})
      if (message.contains(key) && message[key].is_string()) made[key] = message[key];
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace stoa::serve
