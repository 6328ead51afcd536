#include "infer/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/timing.h"
#include "infer/stop_filter.h"
#include "token/stream_decoder.h"

namespace stoa::infer {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

TokenFeed feed_of(Decoder& decoder, const Decoder::Parts& parts) {
  return {
      .feed = [&decoder, parts](std::span<const std::int32_t> tokens) { return decoder.feed(parts, tokens); },
      .room = [&decoder] { return decoder.context() - decoder.fed(); }};
}

bool ends_answer(std::int32_t id, const token::Tokenizer& tokenizer, const GenerateOptions& options) {
  return id == tokenizer.eod_id() || id == tokenizer.eos_id() ||
         std::find(options.end_tokens.begin(), options.end_tokens.end(), id) != options.end_tokens.end();
}

GenerateResult generate_ids(const TokenFeed& model, const token::Tokenizer& tokenizer,
                            std::vector<std::int32_t> prompt, const GenerateOptions& options,
                            const std::function<bool(std::string_view)>& emit,
                            std::span<const std::int32_t> earlier) {
  GenerateResult result;
  TokenSampler sampler(options.sampling);
  token::StreamDecoder stream(tokenizer);
  StopFilter filter(options.stop);
  std::vector<std::int32_t> seen(earlier.begin(), earlier.end());
  seen.insert(seen.end(), prompt.begin(), prompt.end());
  auto begin = Clock::now();
  std::span<const float> logits = model.feed(prompt);
  result.prompt_seconds = seconds_since(begin);
  begin = Clock::now();
  bool stopped = false;
  const auto tell = [&](const std::string& text) {
    const std::string certain = filter.push(text, stopped);
    if (!certain.empty() && !emit(certain)) {
      stopped = true;
      result.reason = EndReason::kCaller;
    }
  };
  result.reason = EndReason::kLength;
  while (static_cast<std::int64_t>(result.answer.size()) < options.max_tokens) {
    const std::int32_t id = sampler.next(logits, seen);
    if (!std::isfinite(logits[static_cast<std::size_t>(id)])) {
      result.reason = EndReason::kNotANumber;
      break;
    }
    if (ends_answer(id, tokenizer, options)) {
      result.reason = EndReason::kEndToken;
      break;
    }
    result.answer.push_back(id);
    seen.push_back(id);
    tell(stream.push(id));
    if (stopped) {
      if (result.reason == EndReason::kLength) result.reason = EndReason::kStopText;
      break;
    }
    if (static_cast<std::int64_t>(result.answer.size()) == options.max_tokens) break;
    if (model.room() < 1) {
      result.reason = EndReason::kContext;
      break;
    }
    logits = model.feed(std::span(&id, 1));
  }
  if (!stopped) tell(stream.finish());
  if (!stopped)
    if (const std::string rest = filter.finish(); !rest.empty()) emit(rest);
  result.answer_seconds = seconds_since(begin);
  result.prompt = std::move(prompt);
  return result;
}

GenerateResult generate(Decoder& decoder, const Decoder::Parts& parts, const token::Tokenizer& tokenizer,
                        std::string_view prompt, const GenerateOptions& options,
                        const std::function<bool(std::string_view)>& emit) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt, {.plain = false, .add_special = true});
  if (ids.empty()) {
    const auto start = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eod_id();
    require<DataError>(start.has_value(),
                       "an empty prompt, and the tokenizer has no beginning-of-text token");
    ids.push_back(*start);
  }
  const auto room = static_cast<std::size_t>(
      std::max<std::int64_t>(1, decoder.context() - std::min(options.max_tokens, decoder.context() / 2)));
  if (ids.size() > room) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(room));
  decoder.rewind();
  return generate_ids(feed_of(decoder, parts), tokenizer, std::move(ids), options, emit);
}

}  // namespace stoa::infer
