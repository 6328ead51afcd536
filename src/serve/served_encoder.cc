#include "serve/served_encoder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "base/timing.h"

namespace stoa::serve {
namespace {

std::vector<float> of_length_one(const std::vector<double>& vector) {
  double squares = 0;
  for (const double x : vector) squares += x * x;
  const double scale = squares == 0 ? 1 : 1 / std::sqrt(squares);
  std::vector<float> out;
  for (const double x : vector) out.push_back(static_cast<float>(x * scale));
  return out;
}

ApiError api_error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError& gone) {
    return {503, gone.what()};
  } catch (const std::exception& other) {
    return {500, other.what()};
  }
}

}  // namespace

ServedEncoder::ServedEncoder(infer::OpenModel& model, const ModelOptions& options)
    : embedder_(model, {}, {}),
      admission_(options.queue_seconds, options.queue_requests, true),
      loop_(
          embedder_.longest(), std::min(infer::EngineUse().pass_tokens, embedder_.pass_tokens()),
          [this] { embedder_.use_in_this_thread(); },
          [this](auto tokens, auto lengths, const auto& emit) {
            const auto begin = std::chrono::steady_clock::now();
            embedder_.read(tokens, lengths, emit);
            admission_.measured(seconds_since(begin), std::ssize(tokens));
          }) {}

std::int64_t ServedEncoder::submit(const std::vector<std::string>& texts, EmbeddingListener listener,
                                   const std::string& owner) {
  if (stopped_) throw ApiError(503, "the server is shutting down");
  std::vector<std::vector<std::int32_t>> ids;
  std::int64_t tokens = 0;
  try {
    for (const std::string& text : texts) {
      ids.push_back(embedder_.ids_of(text));
      tokens += std::ssize(ids.back());
    }
  } catch (const DataError& error) {
    throw ApiError(400, error.what());
  }
  const Admission::Ticket admitted = admission_.enter(owner, tokens, 0);
  return loop_.submit(
      std::move(ids),
      [this, tokens, admitted, listener = std::move(listener)](std::vector<std::vector<double>> vectors,
                                                               const std::exception_ptr& error) {
        admission_.leave(admitted, error ? 0 : tokens, 0);
        if (error) return listener.failed(api_error_of(error));
        listener.elsewhere([tokens, done = listener.done, vectors = std::move(vectors)] {
          std::vector<std::vector<float>> out;
          for (const std::vector<double>& vector : vectors) out.push_back(of_length_one(vector));
          done(std::move(out), tokens);
        });
      },
      owner);
}

void ServedEncoder::stop() {
  stopped_ = true;
  loop_.fail_all(std::make_exception_ptr(CommError("the server is shutting down")));
}

}  // namespace stoa::serve
