// The work of one request that asks for text: what the engine is asked for, the text of the choices, and the
// answer, whole or as a stream. What the answer looks like is left to the endpoints.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/answer_text.h"
#include "serve/served_model.h"

namespace stoa::serve {

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};
// OpenAI's "usage".
Json to_json(const Usage& usage);

class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  GenerationTask(std::shared_ptr<ServedModel> model, std::shared_ptr<http::Answer> answer, bool stream);
  virtual ~GenerationTask();

  // Gives the requests, one per prompt, to the model's engine. The choices are numbered: prompt · n + choice.
  void run(std::vector<infer::Request> prompts, const AnswerText::Options& text);

 protected:
  // Called one at a time. `choice` counts over all prompts.
  virtual void on_begin() {}  // before anything else: of a stream, after its header
  virtual void on_prompt(std::size_t prompt, const std::vector<infer::ScoredToken>& scores);
  virtual void on_piece(std::size_t choice, AnswerPiece piece) = 0;
  virtual void on_choice_end(std::size_t choice, infer::EndReason reason) = 0;
  virtual void on_finish() = 0;  // sends the answer, or the end of the stream
  virtual void on_error(const ApiError& error);

  // An event of the stream: "data: {…}".
  void event(const Json& value);
  void raw_event(const std::string& text);

  const ServedModel& model() const { return *model_; }
  http::Answer& answer() { return *answer_; }
  bool stream() const { return stream_; }
  const Usage& usage() const { return usage_; }
  std::size_t choices_per_prompt() const { return per_prompt_; }
  std::int64_t tokens_of(std::size_t choice) const { return texts_[choice].tokens(); }
  const std::string& stop_text_of(std::size_t choice) const { return texts_[choice].stop_text(); }
  // Tokens of its prompt that were not computed; known when it has ended.
  std::int64_t cached_of(std::size_t choice) const { return cached_[choice]; }
  // Seconds until its first token, and from then to its last one.
  struct ChoiceSeconds {
    double prompt = 0, answer = 0;
  };
  ChoiceSeconds seconds_of(std::size_t choice) const;

 private:
  using Clock = std::chrono::steady_clock;
  bool receive(std::size_t prompt, const infer::Event& event);
  void begin();
  bool token(std::size_t choice, const infer::ScoredToken& score);
  void choice_ended(std::size_t choice, const infer::Event& event);
  void fail(const ApiError& error);
  void cancel();
  void finish();

  const std::shared_ptr<ServedModel> model_;
  Metrics& metrics_;
  const std::shared_ptr<http::Answer> answer_;
  const bool stream_;
  std::mutex mutex_;
  std::vector<infer::RequestId> requests_;
  std::vector<AnswerText> texts_;
  std::vector<bool> stopped_;                                  // by a stop text
  std::vector<Clock::time_point> first_tokens_, last_tokens_;  // of each choice
  std::vector<std::int64_t> cached_;
  std::size_t open_ = 0, per_prompt_ = 1;
  bool begun_ = false, over_ = false, cancelled_ = false;
  Admission::Ticket admitted_;
  Usage usage_;
  RequestTimes times_;
  Clock::time_point submitted_, first_token_{};
};

}  // namespace stoa::serve
