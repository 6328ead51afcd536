// /v1/responses, OpenAI's newer form of a chat: read as the chat that it describes, answered in items.
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/answer_stream.h"
#include "serve/chat_job.h"
#include "serve/handlers.h"

namespace stoa::serve {
namespace {

// A text, or parts of text, as messages of a chat have them.
Json chat_content(const Json& content, const std::string& place) {
  if (content.is_string()) return content;
  check(content.is_array(), "input", "{}.content must be a text or a list of parts", place);
  Json out = Json::array();
  for (const Json& part : content) {
    const std::string type = part.is_object() ? part.value("type", std::string()) : "";
    const bool text = (type == "input_text" || type == "output_text" || type == "text") &&
                      part.contains("text") && part["text"].is_string();
    check(text, "input", "{}: a part of type '{}' is not supported; input_text and output_text are", place,
          type.substr(0, 60));
    out.push_back({{"type", "text"}, {"text", part["text"]}});
  }
  return out;
}

Json chat_messages(const RequestBody& body) {
  Json out = Json::array();
  if (const auto text = body.text("instructions")) out.push_back({{"role", "system"}, {"content", *text}});
  const Json& input = body.at("input");
  if (input.is_string()) {
    out.push_back({{"role", "user"}, {"content", input}});
    return out;
  }
  check(input.is_array() && !input.empty(), "input", "'input' must be a text or a list of items, not empty");
  for (std::size_t i = 0; i < input.size(); ++i) {
    const Json& item = input[i];
    const std::string place = fmt::format("input[{}]", i);
    check(item.is_object(), "input", "{} must be an object", place);
    const auto text_at = [&](const char* key) {
      check(item.contains(key) && item[key].is_string(), "input", "{} needs '{}'", place, key);
      return item[key].get<std::string>();
    };
    const std::string type = item.contains("type") ? text_at("type") : "message";
    if (type == "message") {
      check(item.contains("content"), "input", "{} needs content", place);
      out.push_back({{"role", text_at("role")}, {"content", chat_content(item["content"], place)}});
    } else if (type == "function_call") {
      Json call{{"id", text_at("call_id")},
                {"type", "function"},
                {"function", {{"name", text_at("name")}, {"arguments", text_at("arguments")}}}};
      // Calls that follow each other are of one message.
      if (out.empty() || out.back()["role"] != "assistant")
        out.push_back({{"role", "assistant"}, {"content", ""}});
      out.back()["tool_calls"].push_back(std::move(call));
    } else if (type == "function_call_output") {
      check(item.contains("output"), "input", "{} needs 'output'", place);
      out.push_back({{"role", "tool"},
                     {"tool_call_id", text_at("call_id")},
                     {"content", chat_content(item["output"], place)}});
    } else {
      check(type == "reasoning", "input",
            "{}: an item of type '{}' is not supported; message, function_call and function_call_output are",
            place, type.substr(0, 60));
    }
  }
  return out;
}

// {"type": "function", "name": …} as {"type": "function", "function": {"name": …}}.
Json chat_tool(const Json& tool) {
  Json inner = tool;
  inner.erase("type");
  return {{"type", "function"}, {"function", std::move(inner)}};
}

// The body of the chat completion that is asked for.
Json chat_body(const RequestBody& body) {
  Json out{{"messages", chat_messages(body)}};
  for (const char* same : {"model", "temperature", "top_p", "stream", "parallel_tool_calls", "seed", "stop"})
    if (const Json* value = body.find(same)) out[same] = *value;
  if (const Json* most = body.find("max_output_tokens")) out["max_completion_tokens"] = *most;
  if (const Json* tools = body.find("tools")) {
    check(tools->is_array(), "tools", "'tools' must be a list");
    for (const Json& tool : *tools) {
      const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
      check(!type.is_string() || type == "function", "tools",
            "'tools': a tool of type '{}' runs on no server here; those of type function are taken",
            type.is_string() ? type.get<std::string>().substr(0, 60) : "");
      check(type == "function" && tool.contains("name"), "tools",
            R"('tools': each must be {{"type": "function", "name": …}})");
      out["tools"].push_back(chat_tool(tool));
    }
  }
  if (const Json* choice = body.find("tool_choice"))
    out["tool_choice"] = choice->is_object() && choice->contains("name") ? chat_tool(*choice) : *choice;
  if (const Json* text = body.find("text")) {
    check(text->is_object(), "text", "'text' must be an object");
    check_keys(*text, "text", {"format", "verbosity"});
    if (text->contains("format")) out["response_format"] = (*text)["format"];
  }
  return out;
}

class ResponseTask : public GenerationTask {
 public:
  ResponseTask(const Call& call, ChatJob job)
      : GenerationTask(job.model, call.answer, job.stream),
        id_("resp_" + call.id),
        request_(call.body.object()),
        job_(std::move(job)),
        created_(std::time(nullptr)),
        sent_(job_.tools) {}

 protected:
  void on_begin() override {
    if (!stream()) return;
    named("response.created", {{"response", response("in_progress", Json::array())}});
    named("response.in_progress", {{"response", response("in_progress", Json::array())}});
  }

  void on_piece(std::size_t, AnswerPiece piece) override {
    text_ += piece.text;
    if (!stream()) return;
    if (const std::string text = sent_.take(text_); !text.empty()) send_text(text);
    sent_.send_begun(open(), more());
  }

  void on_choice_end(std::size_t, infer::EndReason reason) override {
    cut_off_ = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    const AnswerWithTools parsed = job_.tools.read(text_, cut_off_);
    if (!stream()) {
      if (!parsed.content.empty() || parsed.calls.empty()) end_message(parsed.content, parsed.calls.empty());
      for (std::size_t i = 0; i < parsed.calls.size(); ++i)
        end_call(i, parsed.calls[i], i + 1 == parsed.calls.size());
      return;
    }
    sent_.send_rest(parsed, open(), more());
    if (!sent_.called().empty()) return end_call(sent_.called().size() - 1, sent_.called().back(), true);
    if (sent_.given() < text_.size() || !opened_) send_text(text_.substr(sent_.given()));
    end_message(text_, true);
  }

  void on_finish() override {
    const Json whole = response(cut_off_ ? "incomplete" : "completed", items_);
    if (!stream()) return answer().send({200, "application/json", json_text(whole)});
    named(cut_off_ ? "response.incomplete" : "response.completed", {{"response", whole}});
  }

  void on_error(const ApiError& error) override {
    Json whole = response("failed", items_);
    whole["error"] = {{"code", "server_error"}, {"message", error.what()}};
    named("response.failed", {{"response", whole}});
  }

 private:
  static Json text_part(const std::string& text) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
  }
  std::string message_id() const { return "msg_" + id_; }
  Json message(const char* status, Json content) const {
    return {{"id", message_id()},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }
  std::string call_item_id(std::size_t i) const { return fmt::format("fc_{}_{}", id_, i); }
  Json call_item(std::size_t i, const ToolCall& call, const char* status) const {
    return {{"id", call_item_id(i)},         {"type", "function_call"}, {"status", status},
            {"call_id", call_id(id_, 0, i)}, {"name", call.name},       {"arguments", call.arguments}};
  }
  // Calls come behind the message, if there is one.
  std::size_t place_of_call(std::size_t i) const { return i + (opened_ ? 1 : 0); }
  // The message's text among the items.
  Json place_of_text() const {
    return {{"item_id", message_id()}, {"output_index", 0}, {"content_index", 0}};
  }

  void send_text(const std::string& text) {
    if (!std::exchange(opened_, true)) {
      named("response.output_item.added",
            {{"output_index", 0}, {"item", message("in_progress", Json::array())}});
      Json part = place_of_text();
      part["part"] = text_part("");
      named("response.content_part.added", part);
    }
    Json delta = place_of_text();
    delta["delta"] = text;
    delta["logprobs"] = Json::array();
    named("response.output_text.delta", delta);
  }

  // A call begins when the item before it is complete.
  AnswerStream::Open open() {
    return [this](std::size_t i) {
      if (i > 0)
        end_call(i - 1, sent_.called()[i - 1], false);
      else if (opened_)
        end_message(text_.substr(0, sent_.given()), false);
      named("response.output_item.added",
            {{"output_index", place_of_call(i)}, {"item", call_item(i, sent_.called()[i], "in_progress")}});
    };
  }
  AnswerStream::More more() {
    return [this](std::size_t i, const std::string& arguments) {
      named("response.function_call_arguments.delta",
            {{"item_id", call_item_id(i)}, {"output_index", place_of_call(i)}, {"delta", arguments}});
    };
  }

  // An item is complete, the `last` one unless it is cut off.
  const char* status_of(bool last) const { return last && cut_off_ ? "incomplete" : "completed"; }
  void end_item(Json item) {
    if (stream()) named("response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
    items_.push_back(std::move(item));
  }
  void end_message(const std::string& text, bool last) {
    const Json part = text_part(text);
    if (stream()) {
      Json done = place_of_text();
      done["text"] = text;
      done["logprobs"] = Json::array();
      named("response.output_text.done", done);
      done = place_of_text();
      done["part"] = part;
      named("response.content_part.done", done);
    }
    end_item(message(status_of(last), Json::array({part})));
  }
  void end_call(std::size_t i, const ToolCall& call, bool last) {
    if (stream())
      named("response.function_call_arguments.done", {{"item_id", call_item_id(i)},
                                                      {"output_index", items_.size()},
                                                      {"name", call.name},
                                                      {"arguments", call.arguments}});
    end_item(call_item(i, call, status_of(last)));
  }

  // The response so far; what the request left open is null.
  Json response(const char* status, const Json& output) const {
    const auto asked = [&](const char* key, const Json& otherwise) {
      const auto found = request_.find(key);
      return found == request_.end() ? otherwise : *found;
    };
    Json out{{"id", id_},
             {"object", "response"},
             {"created_at", created_},
             {"status", status},
             {"error", nullptr},
             {"incomplete_details", nullptr},
             {"instructions", asked("instructions", nullptr)},
             {"max_output_tokens", asked("max_output_tokens", nullptr)},
             {"model", model().name()},
             {"output", output},
             {"parallel_tool_calls", !job_.tools.one_call},
             {"previous_response_id", nullptr},
             {"store", false},
             {"temperature", asked("temperature", nullptr)},
             {"text", asked("text", {{"format", {{"type", "text"}}}})},
             {"tool_choice", asked("tool_choice", "auto")},
             {"tools", asked("tools", Json::array())},
             {"top_p", asked("top_p", nullptr)},
             {"truncation", "disabled"},
             {"metadata", asked("metadata", Json::object())},
             {"usage", nullptr}};
    if (std::string_view(status) == "incomplete")
      out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (std::string_view(status) != "in_progress")
      out["usage"] = {{"input_tokens", usage().prompt_tokens},
                      {"input_tokens_details", {{"cached_tokens", usage().cached_tokens}}},
                      {"output_tokens", usage().completion_tokens},
                      {"output_tokens_details", {{"reasoning_tokens", 0}}},
                      {"total_tokens", usage().prompt_tokens + usage().completion_tokens}};
    return out;
  }

  void named(const char* type, const Json& fields) {
    Json value{{"type", type}, {"sequence_number", number_++}};
    value.update(fields);
    raw_event(fmt::format("event: {}\ndata: {}\n\n", type, json_text(value)));
  }

  const std::string id_;
  const Json request_;
  const ChatJob job_;
  const std::int64_t created_;
  AnswerStream sent_;    // by a stream
  bool opened_ = false;  // the stream has an item for the message
  std::string text_;     // of the answer
  Json items_ = Json::array();
  bool cut_off_ = false;
  std::int64_t number_ = 0;  // of the next event
};

// What is wrong with a field of the chat, of the field that it was made of.
ApiError about_response(const ApiError& error) {
  std::string param = error.param();
  for (const auto& [chat, own] :
       {std::pair{"messages", "input"}, std::pair{"max_completion_tokens", "max_output_tokens"},
        std::pair{"response_format", "text"}})
    if (param == chat) param = own;
  ApiError out(error.status(), error.what(), param, error.code());
  out.headers = error.headers;
  return out;
}

}  // namespace

void respond(const Call& call) {
  RequestBody chat = RequestBody::of(chat_body(call.body), fields_of("/v1/chat/completions"), false);
  try {
    ChatJob job = read_chat({call.model, std::move(chat), call.owner, call.id, call.answer});
    std::vector<infer::Request> requests;
    requests.push_back(std::move(job.request));
    const AnswerText::Options text = job.text;
    std::make_shared<ResponseTask>(call, std::move(job))->run(std::move(requests), text);
  } catch (const ApiError& error) {
    throw about_response(error);
  }
}

}  // namespace stoa::serve
