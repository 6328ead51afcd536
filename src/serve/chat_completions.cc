// Chat completions, in OpenAI's form.
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/chat_job.h"
#include "serve/handlers.h"
#include "serve/token_text.h"
#include "serve/tools/begun_calls.h"
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
        choices_(static_cast<std::size_t>(choices)) {}

 protected:
  struct Choice {
    std::string text;                        // of the answer so far
    std::size_t given = 0;                   // bytes of it that the stream has sent
    std::vector<std::size_t> called = {};    // bytes of the arguments of each call that the stream has sent
    std::optional<GrowingCalls> begun = {};  // of a stream with tools
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
    std::size_t held = 0;
    if (job_.tools.family) {
      if (!choice.begun) choice.begun.emplace(*job_.tools.family);
      choice.begun->read(choice.text);
      held = choice.begun->held();
    }
    // A call once begun is held to the end, so the bounds only grow.
    const std::size_t end = std::max(choice.given, choice.text.size() - held);
    const std::string text = choice.text.substr(choice.given, end - choice.given);
    choice.given = end;
    if (!text.empty() || !scores.empty()) send_chunk(index, {{"content", text}}, nullptr, scores);
    if (held > 0) send_calls(index, choice.begun->calls());
  }

  void on_choice_end(std::size_t index, infer::EndReason reason) override {
    Choice& choice = choices_[index];
    const bool full = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    choice.reason = full ? "length" : "stop";
    if (!stream()) return;
    if (job_.tools.family) {
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
  // The calls of an answer that is complete, where a stream may have sent some that turned out to be broken.
  std::vector<ToolCall> all_calls(const Choice& choice, const AnswerWithTools& parsed) const {
    if (choice.called.empty()) return parsed.calls;
    std::vector<ToolCall> begun = begun_calls(choice.text, *job_.tools.family);
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
    for (std::size_t i = 0; i < calls.size() && !(job_.tools.one_call && i > 0); ++i) {
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
