#include "eval/requests/encoded_requests.h"

#include "base/error.h"

namespace stoa::eval {

EncodedRequests::EncodedRequests(const token::Tokenizer& tokenizer, std::vector<Request> requests,
                                 std::vector<const infer::GenerateOptions*> generation, std::int64_t window,
                                 std::optional<bool> add_bos)
    : requests_(std::move(requests)), generation_(std::move(generation)), window_(window) {
  RequestEncoder encoder(tokenizer, add_bos);
  for (std::size_t i = 0; i < requests_.size(); ++i) add(i, encoder);
}

std::uint64_t EncodedRequests::seed_of(const EncodedText& text) const {
  return generation(text).sampling.seed + requests_[text.request].number;
}

void EncodedRequests::add(std::size_t number, RequestEncoder& encoder) {
  const Request& request = requests_[number];
  switch (request.kind) {
    case Request::Kind::kLoglikelihood:
      return add_pair(number, encoder.pair(request.context, request.continuation), false);
    case Request::Kind::kRolling:
      for (EncodedPair& pair : rolling_windows(encoder.text(request.continuation), encoder.prefix(), window_))
        add_pair(number, std::move(pair), true);
      return;
    case Request::Kind::kGenerate:
      break;
  }
  EncodedText text;
  text.request = number;
  text.generate = true;
  text.tokens = encoder.text(request.context);
  if (text.tokens.empty()) text.tokens.push_back(encoder.prefix());
  const std::int64_t most = generation_[number]->max_tokens, room = window_ - most;
  require<DataError>(room >= 1, "answers of {} tokens (max_gen_toks) do not fit the window of {}", most,
                     window_);
  if (static_cast<std::int64_t>(text.tokens.size()) > room) {
    ++truncated_;
    text.tokens.erase(text.tokens.begin(), text.tokens.end() - static_cast<std::ptrdiff_t>(room));
  }
  texts_.push_back(std::move(text));
}

void EncodedRequests::add_pair(std::size_t number, EncodedPair pair, bool rolling) {
  const auto scored = pair.continuation.size(), most = static_cast<std::size_t>(window_) + 1;
  require<DataError>(scored < most, "a continuation of {} tokens is longer than the window of {}", scored,
                     window_);
  std::vector<std::int32_t> all = std::move(pair.context);
  all.insert(all.end(), pair.continuation.begin(), pair.continuation.end());
  if (all.size() > most) {
    if (!rolling) ++truncated_;
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  }
  EncodedText text;
  text.request = number;
  text.rolling = rolling;
  text.scored = scored;
  text.labels.assign(all.begin() + 1, all.end());
  all.pop_back();
  text.tokens = std::move(all);
  texts_.push_back(std::move(text));
}

AnswerCollector::AnswerCollector(const EncodedRequests& requests, const AnswerTold& told)
    : requests_(requests),
      told_(told),
      answers_(requests.requests().size()),
      of_request_(requests.requests().size()) {
  for (const EncodedText& text : requests.texts()) {
    total_ += cost(text);
    of_request_[text.request].push_back(&text);
  }
  for (const auto& texts : of_request_) left_.push_back(texts.size());
}

// Tokens that are read, and those of an answer.
double AnswerCollector::cost(const EncodedText& text) const {
  return static_cast<double>(text.tokens.size()) +
         (text.generate ? 4.0 * static_cast<double>(requests_.generation(text).max_tokens) : 0.0);
}

void AnswerCollector::done(const EncodedText& text) {
  spent_ += cost(text);
  if (--left_[text.request] > 0) return;
  Answer& answer = answers_[text.request];
  for (const EncodedText* window : of_request_[text.request]) answer.log_likelihood += window->log_likelihood;
  told_(text.request, answer, spent_ / total_);
}

}  // namespace stoa::eval
