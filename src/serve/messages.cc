// /v1/messages, Anthropic's form of a chat.
#include "serve/chat_messages.h"
#include "serve/handlers.h"
#include "serve/sampling_fields.h"

namespace stoa::serve {
namespace {

class MessageTask : public GenerationTask {
 public:
  MessageTask(std::shared_ptr<ServedModel> model, const Call& call, bool stream)
      : GenerationTask(std::move(model), call.answer, stream), id_("msg_" + call.id) {}

 protected:
  void on_begin() override {
    if (!stream()) return;
    named("message_start", {{"message", message(Json::array(), nullptr)}});
    named("content_block_start", {{"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  }
  void on_piece(std::size_t, AnswerPiece piece) override {
    if (!stream())
      text_ += piece.text;
    else if (!piece.text.empty())
      named("content_block_delta", {{"index", 0}, {"delta", {{"type", "text_delta"}, {"text", piece.text}}}});
  }
  void on_choice_end(std::size_t, infer::EndReason reason) override {
    reason_ = reason == infer::EndReason::kStopText   ? "stop_sequence"
              : reason == infer::EndReason::kEndToken ? "end_turn"
                                                      : "max_tokens";
  }
  void on_finish() override {
    if (!stream())
      return answer().send({200, "application/json",
                            json_text(message(Json::array({{{"type", "text"}, {"text", text_}}}), reason_))});
    named("content_block_stop", {{"index", 0}});
    named("message_delta", {{"delta", {{"stop_reason", reason_}, {"stop_sequence", nullptr}}},
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
        {"stop_sequence", nullptr},
        {"usage", {{"input_tokens", usage().prompt_tokens}, {"output_tokens", usage().completion_tokens}}}};
  }
  void named(const char* type, const Json& fields) {
    Json value{{"type", type}};
    value.update(fields);
    raw_event(fmt::format("event: {}\ndata: {}\n\n", type, json_text(value)));
  }

  const std::string id_;
  std::string text_;
  Json reason_;
};

}  // namespace

void answer_message(const Call& call) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  model->require_engine();
  Json messages = read_messages(body, "messages");
  if (const Json* system = body.find("system"))
    messages.insert(messages.begin(),
                    Json{{"role", "system"}, {"content", text_of_content(*system, "system")}});
  const auto wanted = body.integer("max_tokens", 1, std::numeric_limits<std::int32_t>::max());
  check(wanted.has_value(), "max_tokens", "'max_tokens' is missing");
  const bool stream = body.boolean("stream", false);
  infer::Request job = read_sampling(body, *model);
  AnswerText::Options text;
  text.stop = read_stops(body, "stop_sequences");
  job.prompt = model->render(messages, Json::object(), true);
  job.max_tokens = answer_length(*model, job.prompt.size(), wanted, "max_tokens");
  job.tenant = call.owner;
  auto task = std::make_shared<MessageTask>(model, call, stream);
  std::vector<infer::Request> jobs;
  jobs.push_back(std::move(job));
  task->run(std::move(jobs), text);
}

}  // namespace stoa::serve
