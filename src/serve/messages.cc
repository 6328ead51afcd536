// /v1/messages, Anthropic's form of a chat: read as the chat that it describes, answered in blocks.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/answer_stream.h"
#include "serve/chat_job.h"
#include "serve/chat_messages.h"
#include "serve/handlers.h"

namespace stoa::serve {
namespace {

std::string type_of(const Json& block) {
  return block.is_object() && block.contains("type") && block["type"].is_string()
             ? block["type"].get<std::string>()
             : "";
}

// What a tool gave, as a message of the chat.
Json tool_message(const Json& block, const std::string& place) {
  check(block.contains("tool_use_id") && block["tool_use_id"].is_string(), "messages",
        "{}: a tool_result needs 'tool_use_id'", place);
  const Json content = block.value("content", Json(""));
  return {{"role", "tool"},
          {"tool_call_id", block["tool_use_id"]},
          {"content", content.is_null() ? "" : text_of_content(content, place + ".content")}};
}

Json call_of_block(const Json& block, const std::string& place) {
  for (const char* key : {"id", "name"})
    check(block.contains(key) && block[key].is_string(), "messages", "{}: a tool_use needs '{}'", place, key);
  const Json input = block.value("input", Json::object());
  check(input.is_object(), "messages", "{}.input must be an object", place);
  return {{"id", block["id"]},
          {"type", "function"},
          {"function", {{"name", block["name"]}, {"arguments", input}}}};
}

// The messages of the chat that one message is: results of tools first, then its text and its calls.
void add_message(const Json& message, const std::string& place, Json& out) {
  check(message.is_object() && message.contains("content"), "messages", "{} needs content", place);
  const Json& content = message["content"];
  const Json role = message.value("role", Json());
  check(role == "user" || role == "assistant" || role == "system", "messages",
        "{}.role must be 'user', 'assistant' or 'system'", place);
  Json own = message, calls = Json::array(), texts = Json::array();
  if (!content.is_array()) {
    text_of_content(content, place + ".content");  // said with the place in the client's list
    return out.push_back(std::move(own));
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string at = fmt::format("{}.content[{}]", place, i), type = type_of(content[i]);
    if (type == "tool_result" && role == "user")
      out.push_back(tool_message(content[i], at));
    else if (type == "tool_use" && role == "assistant")
      calls.push_back(call_of_block(content[i], at));
    else if (type != "thinking" && type != "redacted_thinking") {
      text_of_content(Json::array({content[i]}), at);
      texts.push_back(content[i]);
    }
  }
  if (texts.empty() && calls.empty() && !content.empty()) return;
  own["content"] = std::move(texts);
  if (!calls.empty()) own["tool_calls"] = std::move(calls);
  out.push_back(std::move(own));
}

Json chat_of_messages(const RequestBody& body) {
  Json out = Json::array();
  if (const Json* system = body.find("system"))
    out.push_back({{"role", "system"}, {"content", text_of_content(*system, "system")}});
  const Json& list = body.at("messages");
  check(list.is_array() && !list.empty(), "messages", "'messages' must be a list of messages, and not empty");
  for (std::size_t i = 0; i < list.size(); ++i) add_message(list[i], fmt::format("messages[{}]", i), out);
  check(!out.empty(), "messages", "'messages' has nothing but thinking");
  return out;
}

// {"name": …, "input_schema": …} as {"type": "function", "function": {"name": …, "parameters": …}}.
Json chat_of_tool(const Json& tool) {
  const bool own = type_of(tool).empty() || type_of(tool) == "custom";
  check(own, "tools",
        "'tools': a tool of type '{}' runs on no server here; those with an input_schema are taken",
        type_of(tool).substr(0, 60));
  const bool good = tool.is_object() && tool.contains("name") && tool["name"].is_string() &&
                    tool.value("input_schema", Json()).is_object();
  check(good, "tools", R"('tools': each must be {{"name": …, "input_schema": …}})");
  Json inner{{"name", tool["name"]}};
  if (tool.contains("description")) inner["description"] = tool["description"];
  inner["parameters"] = tool["input_schema"];
  return {{"type", "function"}, {"function", std::move(inner)}};
}

void read_choice(const Json& choice, Json& chat) {
  const std::string type = type_of(choice);
  if (type == "auto" || type == "none")
    chat["tool_choice"] = type;
  else if (type == "any")
    chat["tool_choice"] = "required";
  else if (type == "tool" && choice.contains("name") && choice["name"].is_string())
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
  else
    reject("tool_choice",
           R"('tool_choice' must be of type auto, any, none, or {{"type": "tool", "name": …}})");
  if (const Json alone = choice.value("disable_parallel_tool_use", Json()); !alone.is_null()) {
    check(alone.is_boolean(), "tool_choice", "'tool_choice.disable_parallel_tool_use' must be true or false");
    chat["parallel_tool_calls"] = !alone.get<bool>();
  }
}

// {"format": {"type": "json_schema", "schema": …}}
void read_output(const Json& config, Json& chat) {
  check(config.is_object(), "output_config", "'output_config' must be an object");
  check_keys(config, "output_config", {"format", "effort"});
  const Json format = config.value("format", Json());
  if (format.is_null()) return;
  check(type_of(format) == "json_schema" && format.contains("schema"), "output_config",
        R"('output_config.format' must be {{"type": "json_schema", "schema": …}})");
  chat["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", format["schema"]}}}};
}

// The body of the chat completion that is asked for.
Json chat_of(const RequestBody& body) {
  Json out{{"messages", chat_of_messages(body)}};
  for (const char* same : {"model", "temperature", "top_p", "top_k", "stream"})
    if (const Json* value = body.find(same)) out[same] = *value;
  if (const Json* stops = body.find("stop_sequences")) out["stop"] = *stops;
  if (const Json* tools = body.find("tools")) {
    check(tools->is_array(), "tools", "'tools' must be a list");
    for (const Json& tool : *tools) out["tools"].push_back(chat_of_tool(tool));
  }
  if (const Json* choice = body.find("tool_choice")) read_choice(*choice, out);
  if (const Json* config = body.find("output_config")) read_output(*config, out);
  // The beginning of the answer is given.
  const Json& last = out["messages"].back();
  if (last.value("role", Json()) == "assistant" && !last.contains("tool_calls"))
    out["continue_final_message"] = true;
  return out;
}

ChatJob read_messages_as_chat(const Call& call, Json chat) {
  RequestBody body = RequestBody::of(std::move(chat), fields_of("/v1/chat/completions"), false);
  try {
    return read_chat({call.model, std::move(body), call.owner, call.id, call.answer});
  } catch (const ApiError& error) {
    // In the words of the chat, whose fields have other names.
    for (const auto& [of_chat, own] :
         {std::pair{"stop", "stop_sequences"}, std::pair{"response_format", "output_config"}}) {
      if (error.param() != of_chat) continue;
      std::string text = error.what();
      const std::string name = fmt::format("'{}'", of_chat);
      if (const std::size_t at = text.find(name); at != std::string::npos)
        text.replace(at, name.size(), fmt::format("'{}'", own));
      throw ApiError(error.status(), text, own, error.code());
    }
    throw;
  }
}

class MessageTask : public GenerationTask {
 public:
  MessageTask(const Call& call, ChatJob job)
      : GenerationTask(job.model, call.answer, job.stream),
        id_("msg_" + call.id),
        job_(std::move(job)),
        sent_(job_.tools) {}

 protected:
  void on_begin() override {
    if (stream()) named("message_start", {{"message", message(Json::array(), nullptr)}});
  }
  void on_piece(std::size_t, AnswerPiece piece) override {
    text_ += piece.text;
    if (!stream()) return;
    if (const std::string text = sent_.take(text_); !text.empty()) send_text(text);
    sent_.send_begun(open(), more());
  }
  void on_choice_end(std::size_t choice, infer::EndReason reason) override {
    const bool full = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    answer_ = job_.tools.read(text_, full);
    if (stream()) {
      sent_.send_rest(answer_, open(), more());
      if (sent_.called().empty() && sent_.given() < text_.size()) send_text(text_.substr(sent_.given()));
      answer_.calls = sent_.called();
      if (blocks_ == 0 && !open_) open_block({{"type", "text"}, {"text", ""}});
      close_block();
    }
    reason_ = full                                    ? "max_tokens"
              : !answer_.calls.empty()                ? "tool_use"
              : reason == infer::EndReason::kStopText ? "stop_sequence"
                                                      : "end_turn";
    if (reason_ == "stop_sequence") stop_ = stop_text_of(choice);
  }
  void on_finish() override {
    if (!stream()) return answer().send({200, "application/json", json_text(message(blocks(), reason_))});
    named("message_delta", {{"delta", {{"stop_reason", reason_}, {"stop_sequence", stop_}}},
                            {"usage", {{"output_tokens", usage().completion_tokens}}}});
    named("message_stop", Json::object());
  }
  void on_error(const ApiError& error) override {
    named("error", {{"error", {{"type", "api_error"}, {"message", error.what()}}}});
  }

 private:
  Json message(Json content, const Json& reason) const {
    return {
        {"id", id_},
        {"type", "message"},
        {"role", "assistant"},
        {"model", model().name()},
        {"content", std::move(content)},
        {"stop_reason", reason},
        {"stop_sequence", stop_},
        {"usage", {{"input_tokens", usage().prompt_tokens}, {"output_tokens", usage().completion_tokens}}}};
  }
  Json call_block(std::size_t i, const std::string& name, Json input) const {
    return {{"type", "tool_use"},
            {"id", "toolu_" + call_id(id_, 0, i)},
            {"name", name},
            {"input", std::move(input)}};
  }
  Json blocks() const {
    Json out = Json::array();
    if (!answer_.content.empty() || answer_.calls.empty())
      out.push_back({{"type", "text"}, {"text", answer_.content}});
    for (std::size_t i = 0; i < answer_.calls.size(); ++i) {
      // Arguments that the answer's length cut off are no object.
      Json input = Json::parse(answer_.calls[i].arguments, nullptr, false);
      out.push_back(
          call_block(i, answer_.calls[i].name, input.is_object() ? std::move(input) : Json::object()));
    }
    return out;
  }

  void open_block(Json block) {
    close_block();
    open_ = true;
    named("content_block_start", {{"index", blocks_}, {"content_block", std::move(block)}});
  }
  void close_block() {
    if (std::exchange(open_, false)) named("content_block_stop", {{"index", blocks_++}});
  }
  void send_text(const std::string& text) {
    if (!open_) open_block({{"type", "text"}, {"text", ""}});
    named("content_block_delta", {{"index", blocks_}, {"delta", {{"type", "text_delta"}, {"text", text}}}});
  }
  AnswerStream::Open open() {
    return [this](std::size_t i) { open_block(call_block(i, sent_.called()[i].name, Json::object())); };
  }
  AnswerStream::More more() {
    return [this](std::size_t, const std::string& arguments) {
      named("content_block_delta",
            {{"index", blocks_}, {"delta", {{"type", "input_json_delta"}, {"partial_json", arguments}}}});
    };
  }
  void named(const char* type, const Json& fields) {
    Json value{{"type", type}};
    value.update(fields);
    raw_event(fmt::format("event: {}\ndata: {}\n\n", type, json_text(value)));
  }

  const std::string id_;
  const ChatJob job_;
  AnswerStream sent_;  // by a stream
  std::string text_;   // of the answer
  AnswerWithTools answer_;
  std::size_t blocks_ = 0;  // of a stream, that are closed
  bool open_ = false;       // and one that is open
  Json reason_, stop_;
};

}  // namespace

void answer_message(const Call& call) {
  call.model->require_engine();
  check(call.body.has("max_tokens"), "max_tokens", "'max_tokens' is missing");
  const std::int64_t most = *call.body.integer("max_tokens", 1, std::numeric_limits<std::int32_t>::max());
  ChatJob job = read_messages_as_chat(call, chat_of(call.body));
  // Clients must name a bound, and do not know the model's context.
  job.request.max_tokens = std::min(job.request.max_tokens, most);
  std::vector<infer::Request> requests;
  requests.push_back(std::move(job.request));
  const AnswerText::Options text = job.text;
  std::make_shared<MessageTask>(call, std::move(job))->run(std::move(requests), text);
}

void count_message(const Call& call) {
  call.model->require_engine();
  ChatTools tools;
  const RequestBody chat = RequestBody::of(chat_of(call.body), fields_of("/v1/chat/completions"), false);
  const std::size_t tokens = render_chat(chat, *call.model, tools).size();
  call.answer->send({200, "application/json", json_text(Json{{"input_tokens", tokens}})});
}

}  // namespace stoa::serve
