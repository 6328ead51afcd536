#include "infer/engine/write_text.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/timing.h"

namespace stoa::infer {

Request request_of(std::vector<std::int32_t> prompt, const token::Tokenizer& tokenizer,
                   const GenerateOptions& options) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.end_ids = end_ids(tokenizer, options);
  request.constraint = options.constraint;
  return request;
}

std::int64_t shorten_prompt(std::vector<std::int32_t>& prompt, std::int64_t context,
                            const GenerateOptions& options) {
  const std::int64_t room = std::max<std::int64_t>(
      1, context - std::min(options.max_tokens, std::max<std::int64_t>(1, context / 2)));
  const std::int64_t over = std::max<std::int64_t>(0, std::ssize(prompt) - room);
  prompt.erase(prompt.begin(), prompt.begin() + over);
  return over;
}

GenerateResult write_text(Engine& engine, const token::Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                          const GenerateOptions& options, const TakeText& take) {
  GenerateResult result;
  AnswerWriter writer(tokenizer, options, take);
  std::exception_ptr thrown;  // a listener must not throw
  std::string failure;
  const auto guarded = [&](const auto& body) {
    try {
      return body();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  auto first = begin;
  engine.submit(request_of(prompt, tokenizer, options), [&](const Event& event) {
    if (first == begin) first = std::chrono::steady_clock::now();
    if (event.kind == Event::Kind::kToken) {
      result.answer.push_back(event.token.token.id);
      return guarded([&] { return writer.push(event.token.token.id); });
    }
    result.reason = event.reason;
    result.reused = event.cached_tokens;
    if (event.reason == EndReason::kFailed) failure = event.message;
    return true;
  });
  try {
    while (engine.step()) {
    }
  } catch (...) {
    engine.cancel_all(EndReason::kFailed, "");
    throw;
  }
  if (!thrown) guarded([&] { return result.reason = writer.finish(result.reason), true; });
  if (thrown) std::rethrow_exception(thrown);
  require<DataError>(failure.empty(), "{}", failure);
  result.prompt_seconds = std::chrono::duration<double>(first - begin).count();
  result.answer_seconds = seconds_since(first);
  result.prompt = std::move(prompt);
  return result;
}

GenerateResult write_text(Engine& engine, const token::Tokenizer& tokenizer, std::string_view prompt,
                          const GenerateOptions& options, const TakeText& take) {
  std::vector<std::int32_t> ids = prompt_ids(tokenizer, prompt);
  shorten_prompt(ids, engine.context(), options);
  return write_text(engine, tokenizer, std::move(ids), options, take);
}

}  // namespace stoa::infer
