#include "serve/chat_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "base/nearest.h"
#include "serve/chat_messages.h"
#include "serve/constraint_fields.h"
#include "serve/sampling_fields.h"

namespace stoa::serve {
namespace {

// tools, for the template; none where they are not to be used.
Json read_tools(const RequestBody& body) {
  const Json* tools = body.find("tools");
  if (const Json* choice = body.find("tool_choice")) {
    if (*choice == "none") return {};
    check(tools != nullptr, "tool_choice", "'tool_choice' is used only with 'tools'");
  }
  if (tools == nullptr || (tools->is_array() && tools->empty())) return {};
  check(tools->is_array() && tools->size() <= 128, "tools", "'tools' must be a list of at most 128");
  for (const Json& tool : *tools) {
    const bool good = tool.is_object() && tool.value("type", Json()) == "function" &&
                      tool.contains("function") && tool["function"].is_object() &&
                      tool["function"].contains("name") && tool["function"]["name"].is_string();
    check(good, "tools", R"('tools': each must be {{"type": "function", "function": {{"name": …}}}})");
  }
  return *tools;
}

// What tool_choice says of a call: none, where the model decides; the name of the tool, or "" for any.
std::optional<std::string> forced_tool(const RequestBody& body, const Json& tools) {
  const char* field = "tool_choice";
  const Json* choice = body.find(field);
  if (choice == nullptr || *choice == "auto" || *choice == "none") return std::nullopt;
  check(!tools.is_null(), field, "'tool_choice' forces a call, and 'tools' is empty");
  if (*choice == "required") return "";
  const bool named = choice->is_object() && choice->value("type", Json()) == "function" &&
                     choice->contains("function") && (*choice)["function"].is_object() &&
                     (*choice)["function"].value("name", Json()).is_string();
  check(
      named, field,
      R"('tool_choice' must be "auto", "none", "required" or {{"type": "function", "function": {{"name": …}}}})");
  const auto name = (*choice)["function"]["name"].get<std::string>();
  std::vector<std::string> names;
  for (const Json& tool : tools) names.push_back(tool["function"]["name"].get<std::string>());
  check(std::find(names.begin(), names.end(), name) != names.end(), field,
        "'tool_choice' names '{}', which is not among the tools{}", name.substr(0, 100),
        did_you_mean(name.substr(0, 100), names));
  return name;
}

ServedModel::Next what_follows(const RequestBody& body) {
  const bool continues = body.boolean("continue_final_message", false),
             answers = body.boolean("add_generation_prompt", !continues);
  check(!(continues && answers), "continue_final_message",
        "'continue_final_message' and 'add_generation_prompt' exclude each other");
  using Next = ServedModel::Next;
  return continues ? Next::kRestOfLast : answers ? Next::kAnswer : Next::kNothing;
}

}  // namespace

AnswerWithTools ChatTools::read(const std::string& text, bool cut_off) const {
  if (!family) return {text, {}};
  AnswerWithTools parsed = read_tool_calls(text, *family, tools);
  // A call that the answer's length cut off is given as far as it goes.
  if (cut_off)
    if (auto begun = begun_calls(text, *family); begun.size() > parsed.calls.size()) {
      parsed.content = text.substr(0, text.size() - held_for_tools(text, *family));
      parsed.calls = std::move(begun);
    }
  if (one_call && parsed.calls.size() > 1) parsed.calls.resize(1);
  return parsed;
}

std::string call_id(const std::string& answer, std::size_t choice, std::size_t index) {
  const auto mixed =
      static_cast<std::uint32_t>(std::hash<std::string>()(fmt::format("{} {} {}", answer, choice, index)));
  return fmt::format("c{:08x}", mixed);
}

std::vector<std::int32_t> render_chat(const RequestBody& body, const ServedModel& model, ChatTools& tools) {
  const Json messages = read_messages(body, "messages");
  tools.one_call = !body.boolean("parallel_tool_calls", true);
  tools.tools = read_tools(body);
  Json variables = Json::object();
  if (const Json* more = body.find("chat_template_kwargs")) {
    check(more->is_object(), "chat_template_kwargs", "'chat_template_kwargs' must be an object");
    for (const char* own : {"messages", "tools", "add_generation_prompt"})
      check(!more->contains(own), "chat_template_kwargs", "'{}' is a field of the request, not of '{}'", own,
            "chat_template_kwargs");
    variables = *more;
  }
  if (!tools.tools.is_null()) {
    tools.family = tool_family(model.tool_template_text());
    check(tools.family.has_value(), "tools", "the chat template of '{}' knows no tools", model.name());
    variables["tools"] = tools.tools;
  }
  return model.render(messages, variables, what_follows(body));
}

ChatJob read_chat(const Call& call) {
  const RequestBody& body = call.body;
  ChatJob out;
  out.model = call.model;
  const ServedModel& model = *out.model;
  model.require_engine();
  out.stream = body.boolean("stream", false);
  out.usage = read_stream_options(body, out.stream);
  out.logprobs = body.boolean("logprobs", false);
  const auto top = body.integer("top_logprobs", 0, kMostCandidates);
  check(!top || out.logprobs, "top_logprobs", "'top_logprobs' is used only with \"logprobs\": true");
  out.top = static_cast<std::size_t>(top.value_or(0));
  infer::Request& job = out.request = read_sampling(body, model);
  out.text = read_text_options(body);
  ChatTools& tools = out.tools;
  job.prompt = render_chat(body, model, tools);
  if (tools.family) out.text.skip_special = false;  // some families mark calls by special tokens
  const auto forced = forced_tool(body, tools.tools);
  job.constraint =
      forced ? constraint_of({*tools.family, tools.tools, *forced, tools.one_call || !forced->empty()}, body,
                             model)
             : read_constraint(body, model);
  const char* field = body.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  job.max_tokens = answer_length(model, job.prompt.size(), read_length(body, field), field);
  job.tenant = call.owner;
  if (out.logprobs) job.logprobs = static_cast<int>(out.top);
  job.processed_logprobs = reads_processed_logprobs(body);
  out.text.keep_scores = out.logprobs;
  return out;
}

}  // namespace stoa::serve
