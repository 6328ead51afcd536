#include "serve/generation_task.h"

#include "base/timing.h"

namespace stoa::serve {

Json to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

GenerationTask::GenerationTask(std::shared_ptr<ServedModel> model, std::shared_ptr<http::Answer> answer,
                               bool stream)
    : model_(std::move(model)), metrics_(model_->metrics()), answer_(std::move(answer)), stream_(stream) {}

GenerationTask::~GenerationTask() = default;

void GenerationTask::run(std::vector<infer::Request> prompts, const AnswerText::Options& text) {
  submitted_ = Clock::now();
  per_prompt_ = static_cast<std::size_t>(prompts.front().choices);
  const std::size_t choices = prompts.size() * per_prompt_;
  open_ = choices;
  times_.choices = prompts.front().choices;
  times_.max_tokens = prompts.front().max_tokens;
  std::int64_t answers = 0;
  for (const auto& prompt : prompts) {
    usage_.prompt_tokens += std::ssize(prompt.prompt);
    answers += prompt.max_tokens * prompt.choices;
  }
  for (std::size_t i = 0; i < choices; ++i) texts_.emplace_back(model_->tokenizer(), text);
  stopped_.resize(choices);
  first_tokens_.resize(choices);
  last_tokens_.resize(choices);
  cached_.resize(choices);
  try {
    admitted_ = model_->admission().enter(prompts.front().tenant, usage_.prompt_tokens, answers);
  } catch (const ApiError&) {
    metrics_.rejected();
    throw;
  }
  const std::weak_ptr<GenerationTask> weak = weak_from_this();
  answer_->on_gone([weak] {
    if (const auto task = weak.lock()) task->cancel();
  });
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    try {
      const infer::RequestId id = model_->submit(
          std::move(prompts[i]),
          [task = shared_from_this(), i](const infer::Event& event) { return task->receive(i, event); });
      const std::lock_guard lock(mutex_);
      requests_.push_back(id);
      if (over_ || cancelled_) model_->cancel(id);
    } catch (const ApiError& error) {
      const std::lock_guard lock(mutex_);
      return fail(error);
    }
  }
}

void GenerationTask::on_prompt(std::size_t, const std::vector<infer::ScoredToken>&) {}

void GenerationTask::on_error(const ApiError& error) { raw_event("data: " + error.body() + "\n\n"); }

void GenerationTask::event(const Json& value) {
  raw_event("data: " + value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n");
}

void GenerationTask::raw_event(const std::string& text) { answer_->write(text); }

bool GenerationTask::receive(std::size_t prompt, const infer::Event& event) {
  const std::lock_guard lock(mutex_);
  if (over_) return false;
  const std::size_t choice = prompt * per_prompt_ + static_cast<std::size_t>(event.choice);
  switch (event.kind) {
    case infer::Event::Kind::kPrompt:
      begin();
      on_prompt(prompt, event.prompt);
      return true;
    case infer::Event::Kind::kToken:
      begin();
      return token(choice, event.token);
    case infer::Event::Kind::kEnd:
      choice_ended(choice, event);
  }
  return true;
}

void GenerationTask::begin() {
  if (std::exchange(begun_, true)) return;
  if (stream_) answer_->begin_stream();
  on_begin();
}

bool GenerationTask::token(std::size_t choice, const infer::ScoredToken& score) {
  const auto now = Clock::now();
  if (first_token_ == Clock::time_point()) {
    first_token_ = now;
    metrics_.first_token(seconds_since(submitted_));
  }
  if (texts_[choice].tokens() > 0)
    metrics_.token_interval(std::chrono::duration<double>(now - last_tokens_[choice]).count());
  else
    first_tokens_[choice] = now;
  last_tokens_[choice] = now;
  bool stopped = false;
  AnswerPiece piece = texts_[choice].push(score, stopped);
  stopped_[choice] = stopped;
  if (!piece.empty()) on_piece(choice, std::move(piece));
  return !stopped;
}

void GenerationTask::choice_ended(std::size_t choice, const infer::Event& event) {
  using infer::EndReason;
  EndReason reason = event.reason;
  if (reason == EndReason::kCaller && stopped_[choice]) reason = EndReason::kStopText;
  switch (reason) {
    case EndReason::kCaller:
      return fail(model_->stopped() ? ApiError(503, "the server is shutting down")
                                    : ApiError(503, "the request was cancelled"));
    case EndReason::kNotANumber:
      return fail(ApiError(500, fmt::format("the model's logits are not numbers: {}", infer::kBeyondRange)));
    case EndReason::kFailed:
      return fail(ApiError(500, event.message));
    default:
      break;
  }
  begin();
  if (reason != EndReason::kStopText)
    if (AnswerPiece rest = texts_[choice].finish(); !rest.empty()) on_piece(choice, std::move(rest));
  usage_.completion_tokens += texts_[choice].tokens();
  cached_[choice] = event.cached_tokens;
  if (event.choice == 0) usage_.cached_tokens += event.cached_tokens;
  const bool full = reason == EndReason::kLength || reason == EndReason::kContext;
  metrics_.ended(full ? "length" : "stop");
  on_choice_end(choice, reason);
  if (--open_ == 0) finish();
}

GenerationTask::ChoiceSeconds GenerationTask::seconds_of(std::size_t choice) const {
  if (tokens_of(choice) == 0) return {};
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  return {seconds(first_tokens_[choice] - submitted_), seconds(last_tokens_[choice] - first_tokens_[choice])};
}

void GenerationTask::finish() {
  over_ = true;
  times_.whole = seconds_since(submitted_);
  times_.answer = first_token_ == Clock::time_point() ? 0 : seconds_since(first_token_);
  times_.prompt_tokens = usage_.prompt_tokens;
  times_.answer_tokens = usage_.completion_tokens;
  metrics_.request(times_);
  model_->admission().leave(admitted_, usage_.prompt_tokens + usage_.completion_tokens,
                            usage_.completion_tokens);
  on_finish();
  if (stream_) answer_->end();
}

void GenerationTask::fail(const ApiError& error) {
  if (std::exchange(over_, true)) return;
  metrics_.ended(cancelled_ ? "abort" : "error");
  model_->admission().leave(admitted_, 0, 0);
  for (const infer::RequestId request : requests_) model_->cancel(request);
  if (!stream_ || !begun_) return answer_->send(error.reply());
  on_error(error);
  answer_->end();
}

void GenerationTask::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const infer::RequestId request : requests_) model_->cancel(request);
}

}  // namespace stoa::serve
