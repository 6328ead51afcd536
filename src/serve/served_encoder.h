// The encoder of a model that embeds texts: requests share its passes.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "infer/engine/encoder_loop.h"
#include "infer/text_embedder.h"
#include "serve/admission.h"
#include "serve/error.h"
#include "serve/served_engine.h"

namespace stoa::serve {

// What becomes of a request: one of `done` and `failed` is called once. A request that was cancelled has
// failed.
struct EmbeddingListener {
  // Runs `work` on a thread that is not the encoder's, which has other texts to read.
  std::function<void(std::function<void()> work)> elsewhere;
  // Vectors of length 1, and how many tokens were read. Called by such work.
  std::function<void(std::vector<std::vector<float>> vectors, std::int64_t tokens)> done;
  std::function<void(const ApiError& error)> failed;
};

class ServedEncoder {
 public:
  // Errors are those of infer::TextEmbedder.
  ServedEncoder(infer::OpenModel& model, const ModelOptions& options);

  std::int64_t longest() const { return embedder_.longest(); }
  infer::EncoderLoop::Counters counters() const { return loop_.counters(); }
  // ApiError 400: a text without a token; 429: too much waits; 503: it was stopped. Returns what cancel()
  // gets. `owner`: whose turn is used.
  std::int64_t submit(const std::vector<std::string>& texts, EmbeddingListener listener,
                      const std::string& owner = {});
  void cancel(std::int64_t request) { loop_.cancel(request); }
  // What is open fails, and nothing is taken any more.
  void stop();

 private:
  infer::TextEmbedder embedder_;
  Admission admission_;
  std::atomic<bool> stopped_{false};
  infer::EncoderLoop loop_;  // last: it uses the others
};

}  // namespace stoa::serve
