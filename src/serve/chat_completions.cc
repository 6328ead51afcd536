// Chat completions, in OpenAI's form.
#include <algorithm>
#include <ctime>

#include "base/nearest.h"
#include "serve/chat_messages.h"
#include "serve/constraint_fields.h"
#include "serve/handlers.h"
#include "serve/sampling_fields.h"
#include "serve/token_text.h"
#include "serve/tools/tool_calls.h"

namespace stoa::serve {
namespace {

struct ChatForm {
  std::string id;
  StreamUsage usage;
  bool logprobs = false, one_call = false;
  std::size_t top = 0;
  std::optional<ToolFamily> family;  // of the tools, where there are some
  Json tools;
};

class ChatTask : public GenerationTask {
 public:
  ChatTask(std::shared_ptr<ServedModel> model, const Call& call, bool stream, int choices, ChatForm form)
      : GenerationTask(std::move(model), call.answer, stream),
        form_(std::move(form)),
        created_(std::time(nullptr)),
        choices_(static_cast<std::size_t>(choices)) {}

 protected:
  struct Choice {
    std::string text;                      // of the answer so far
    std::size_t given = 0;                 // bytes of it that the stream has sent
    std::vector<std::size_t> called = {};  // bytes of the arguments of each call that the stream has sent
    Json scores = Json::array();
    std::string reason;
  };

  void on_begin() override {
    if (!stream()) return;
    for (std::size_t i = 0; i < choices_.size(); ++i)
      send_chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, Json::array());
  }

  void on_piece(std::size_t index, AnswerPiece piece) override {
    Choice& choice = choices_[index];
    choice.text += piece.text;
    Json scores = Json::array();
    for (const auto& token : piece.tokens)
      scores.push_back(chat_score(model().tokenizer(), token.score, form_.top));
    if (!stream()) {
      for (auto& score : scores) choice.scores.push_back(std::move(score));
      return;
    }
    const std::size_t held = form_.family ? held_for_tools(choice.text, *form_.family) : 0;
    // A call once begun is held to the end, so the bounds only grow.
    const std::size_t end = std::max(choice.given, choice.text.size() - held);
    const std::string text = choice.text.substr(choice.given, end - choice.given);
    choice.given = end;
    if (!text.empty() || !scores.empty()) send_chunk(index, {{"content", text}}, nullptr, scores);
    if (held > 0) send_calls(index, begun_calls(choice.text, *form_.family));
  }

  void on_choice_end(std::size_t index, infer::EndReason reason) override {
    Choice& choice = choices_[index];
    const bool full = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    choice.reason = full ? "length" : "stop";
    if (!stream()) return;
    if (form_.family) {
      const AnswerWithTools parsed = read(choice);
      // What comes before calls was sent, unless all was held.
      const bool rest = (parsed.calls.empty() && choice.called.empty()) || choice.given == 0;
      if (rest && choice.given < parsed.content.size())
        send_chunk(index, {{"content", parsed.content.substr(choice.given)}}, nullptr, Json::array());
      send_calls(index, all_calls(choice, parsed));
      if (!choice.called.empty() && !full) choice.reason = "tool_calls";
    }
    send_chunk(index, Json::object(), choice.reason, Json::array());
  }

  void on_finish() override {
    if (stream()) {
      if (form_.usage.last) {
        Json last = frame("chat.completion.chunk");
        last["choices"] = Json::array();
        last["usage"] = serve::to_json(usage());
        event(last);
      }
      return raw_event("data: [DONE]\n\n");
    }
    Json list = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      const AnswerWithTools parsed = read(choice);
      Json message{{"role", "assistant"}, {"content", parsed.content}, {"refusal", nullptr}};
      if (!parsed.calls.empty()) {
        if (parsed.content.empty()) message["content"] = nullptr;
        for (std::size_t c = 0; c < parsed.calls.size(); ++c)
          message["tool_calls"].push_back(to_json(parsed.calls[c], i, c));
        if (choice.reason == "stop") choice.reason = "tool_calls";
      }
      list.push_back(
          {{"index", i},
           {"message", std::move(message)},
           {"logprobs", form_.logprobs ? Json{{"content", choice.scores}, {"refusal", nullptr}} : Json()},
           {"finish_reason", choice.reason}});
    }
    Json out = frame("chat.completion");
    out["choices"] = std::move(list);
    out["usage"] = serve::to_json(usage());
    answer().send({200, "application/json", json_text(out)});
  }

 private:
  AnswerWithTools read(const Choice& choice) const {
    if (!form_.family) return {choice.text, {}};
    AnswerWithTools parsed = read_tool_calls(choice.text, *form_.family, form_.tools);
    // A call that the answer's length cut off is given as far as it goes.
    if (choice.reason == "length")
      if (auto begun = begun_calls(choice.text, *form_.family); begun.size() > parsed.calls.size()) {
        parsed.content =
            choice.text.substr(0, choice.text.size() - held_for_tools(choice.text, *form_.family));
        parsed.calls = std::move(begun);
      }
    if (form_.one_call && parsed.calls.size() > 1) parsed.calls.resize(1);
    return parsed;
  }
  // The calls of an answer that is complete, where a stream may have sent some that turned out to be broken.
  std::vector<ToolCall> all_calls(const Choice& choice, const AnswerWithTools& parsed) const {
    if (choice.called.empty()) return parsed.calls;
    std::vector<ToolCall> begun = begun_calls(choice.text, *form_.family);
    const bool same =
        parsed.calls.size() >= begun.size() &&
        std::equal(begun.begin(), begun.end(), parsed.calls.begin(),
                   [](const ToolCall& a, const ToolCall& b) { return a.arguments == b.arguments; });
    return same ? parsed.calls : begun;
  }
  // What the stream has not sent of calls: id and name first, then arguments as they grow.
  void send_calls(std::size_t index, const std::vector<ToolCall>& calls) {
    std::vector<std::size_t>& sent = choices_[index].called;
    const auto send = [&](std::size_t i, Json call) {
      call["index"] = i;
      send_chunk(index, {{"tool_calls", Json::array({std::move(call)})}}, nullptr, Json::array());
    };
    for (std::size_t i = 0; i < calls.size() && !(form_.one_call && i > 0); ++i) {
      if (i == sent.size()) {
        send(i, to_json({calls[i].name, ""}, index, i));
        sent.push_back(0);
      }
      const std::string& arguments = calls[i].arguments;
      if (arguments.size() <= sent[i]) continue;
      send(i, {{"function", {{"arguments", arguments.substr(sent[i])}}}});
      sent[i] = arguments.size();
    }
  }
  // The id is a call's alone in this conversation; templates of Mistral want nine letters and digits.
  Json to_json(const ToolCall& call, std::size_t choice, std::size_t index) const {
    const auto mixed = static_cast<std::uint32_t>(
        std::hash<std::string>()(fmt::format("{} {} {}", form_.id, choice, index)));
    return {{"id", fmt::format("c{:08x}", mixed)},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }
  Json frame(const char* object) const {
    return {{"id", form_.id}, {"object", object}, {"created", created_}, {"model", model().name()}};
  }
  void send_chunk(std::size_t index, Json delta, const Json& reason, const Json& scores) {
    Json chunk = frame("chat.completion.chunk");
    const bool scored = form_.logprobs && !scores.empty();
    chunk["choices"] =
        Json::array({{{"index", index},
                      {"delta", std::move(delta)},
                      {"logprobs", scored ? Json{{"content", scores}, {"refusal", nullptr}} : Json()},
                      {"finish_reason", reason}}});
    if (form_.usage.always)
      chunk["usage"] = serve::to_json(Usage{usage().prompt_tokens, tokens_of(index), usage().cached_tokens});
    else if (form_.usage.last)
      chunk["usage"] = nullptr;
    event(chunk);
  }

  const ChatForm form_;
  const std::int64_t created_;
  std::vector<Choice> choices_;
};

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

}  // namespace

void complete_chat(const Call& call) {
  const RequestBody& body = call.body;
  const auto model = call.models.of(body);
  model->require_engine();
  const Json messages = read_messages(body, "messages");
  ChatForm form;
  form.id = "chatcmpl-" + call.id;
  const bool stream = body.boolean("stream", false);
  form.usage = read_stream_options(body, stream);
  form.logprobs = body.boolean("logprobs", false);
  const auto top = body.integer("top_logprobs", 0, kMostCandidates);
  check(!top || form.logprobs, "top_logprobs", "'top_logprobs' is used only with \"logprobs\": true");
  form.top = static_cast<std::size_t>(top.value_or(0));
  form.one_call = !body.boolean("parallel_tool_calls", true);

  Json variables = Json::object();
  if (const Json* more = body.find("chat_template_kwargs")) {
    check(more->is_object(), "chat_template_kwargs", "'chat_template_kwargs' must be an object");
    variables = *more;
  }
  infer::Request job = read_sampling(body, *model);
  AnswerText::Options text = read_text_options(body);
  form.tools = read_tools(body);
  const auto forced = forced_tool(body, form.tools);
  if (!form.tools.is_null()) {
    form.family = tool_family(model->template_text());
    check(form.family.has_value(), "tools", "the chat template of '{}' knows no tools", model->name());
    variables["tools"] = form.tools;
    text.skip_special = false;  // some families mark calls by special tokens
  }
  job.constraint = forced
                       ? constraint_of({*form.family, form.tools, *forced, form.one_call || !forced->empty()},
                                       body, *model)
                       : read_constraint(body, *model);
  job.prompt = model->render(messages, variables, body.boolean("add_generation_prompt", true));
  const char* field = body.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  job.max_tokens = answer_length(*model, job.prompt.size(),
                                 body.integer(field, 1, std::numeric_limits<std::int32_t>::max()), field);
  job.tenant = call.owner;
  if (form.logprobs) job.logprobs = static_cast<int>(form.top);
  text.keep_scores = form.logprobs;
  const int choices = job.choices;
  auto task = std::make_shared<ChatTask>(model, call, stream, choices, std::move(form));
  std::vector<infer::Request> jobs;
  jobs.push_back(std::move(job));
  task->run(std::move(jobs), text);
}

}  // namespace stoa::serve
