// Chat completions, in OpenAI's form.
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/answer_stream.h"
#include "serve/chat_job.h"
#include "serve/handlers.h"
#include "serve/token_text.h"
#include "serve/tools/tool_calls.h"

namespace stoa::serve {
namespace {

class ChatTask : public GenerationTask {
 public:
  ChatTask(const Call& call, ChatJob job, int choices)
      : GenerationTask(job.model, call.answer, job.stream),
        id_("chatcmpl-" + call.id),
        job_(std::move(job)),
        created_(std::time(nullptr)),
        choices_(static_cast<std::size_t>(choices), Choice(job_.tools)) {}

 protected:
  struct Choice {
    explicit Choice(const ChatTools& tools) : sent(tools) {}

    AnswerStream sent;  // by a stream
    std::string text;   // of the answer so far
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
      scores.push_back(chat_score(model().tokenizer(), token.score, job_.top));
    if (!stream()) {
      for (auto& score : scores) choice.scores.push_back(std::move(score));
      return;
    }
    const std::string text = choice.sent.take(choice.text);
    if (!text.empty() || !scores.empty()) send_chunk(index, {{"content", text}}, nullptr, scores);
    choice.sent.send_begun(open(index), more(index));
  }

  void on_choice_end(std::size_t index, infer::EndReason reason) override {
    Choice& choice = choices_[index];
    const bool full = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    choice.reason = full ? "length" : "stop";
    if (!stream()) return;
    if (job_.tools.family) {
      const AnswerWithTools parsed = read(choice);
      // What comes before calls was sent, unless all was held.
      const std::size_t given = choice.sent.given();
      const bool rest = (parsed.calls.empty() && choice.sent.called().empty()) || given == 0;
      if (rest && given < parsed.content.size())
        send_chunk(index, {{"content", parsed.content.substr(given)}}, nullptr, Json::array());
      choice.sent.send_rest(parsed, open(index), more(index));
      if (!choice.sent.called().empty() && !full) choice.reason = "tool_calls";
    }
    send_chunk(index, Json::object(), choice.reason, Json::array());
  }

  void on_finish() override {
    if (stream()) {
      if (job_.usage.last) {
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
           {"logprobs", job_.logprobs ? Json{{"content", choice.scores}, {"refusal", nullptr}} : Json()},
           {"finish_reason", choice.reason}});
    }
    Json out = frame("chat.completion");
    out["choices"] = std::move(list);
    out["usage"] = serve::to_json(usage());
    answer().send({200, "application/json", json_text(out)});
  }

 private:
  AnswerWithTools read(const Choice& choice) const {
    return job_.tools.read(choice.text, choice.reason == "length");
  }
  // A stream sends the id and the name of a call first, then its arguments as they grow.
  AnswerStream::Open open(std::size_t index) {
    return [this, index](std::size_t i) {
      send_call(index, i, to_json({choices_[index].sent.called()[i].name, ""}, index, i));
    };
  }
  AnswerStream::More more(std::size_t index) {
    return [this, index](std::size_t i, const std::string& arguments) {
      send_call(index, i, {{"function", {{"arguments", arguments}}}});
    };
  }
  void send_call(std::size_t index, std::size_t i, Json call) {
    call["index"] = i;
    send_chunk(index, {{"tool_calls", Json::array({std::move(call)})}}, nullptr, Json::array());
  }
  Json to_json(const ToolCall& call, std::size_t choice, std::size_t index) const {
    return {{"id", call_id(id_, choice, index)},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }
  Json frame(const char* object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model().name()}};
  }
  void send_chunk(std::size_t index, Json delta, const Json& reason, const Json& scores) {
    Json chunk = frame("chat.completion.chunk");
    const bool scored = job_.logprobs && !scores.empty();
    chunk["choices"] =
        Json::array({{{"index", index},
                      {"delta", std::move(delta)},
                      {"logprobs", scored ? Json{{"content", scores}, {"refusal", nullptr}} : Json()},
                      {"finish_reason", reason}}});
    if (job_.usage.always)
      chunk["usage"] = serve::to_json(Usage{usage().prompt_tokens, tokens_of(index), usage().cached_tokens});
    else if (job_.usage.last)
      chunk["usage"] = nullptr;
    event(chunk);
  }

  const std::string id_;
  const ChatJob job_;
  const std::int64_t created_;
  std::vector<Choice> choices_;
};

}  // namespace

void complete_chat(const Call& call) {
  ChatJob job = read_chat(call);
  std::vector<infer::Request> requests;
  requests.push_back(std::move(job.request));
  const AnswerText::Options text = job.text;
  std::make_shared<ChatTask>(call, std::move(job), requests.front().choices)->run(std::move(requests), text);
}

}  // namespace stoa::serve
