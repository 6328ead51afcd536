// A model that the server offers under a name: its files, tokenizer, chat template, defaults and engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "constraint/store.h"
#include "infer/engine/engine_loop.h"
#include "infer/open_model.h"
#include "infer/text_embedder.h"
#include "model/huggingface/generation_config.h"
#include "serve/admission.h"
#include "serve/metrics.h"
#include "serve/request_body.h"

namespace stoa::serve {

struct ModelOptions {
  std::string name;                  // in requests
  std::vector<std::string> aliases;  // other names for the same: the path as it was given
  fs::path path;
  std::optional<fs::path> adapter;
  std::optional<DType> dtype;
  std::optional<std::int64_t> max_context;  // tokens
  std::optional<double> cache_gigabytes;    // of keys and values
  bool prompt_lookup = false;               // guesses of tokens from the text itself, or
  std::optional<fs::path> draft;            // of a smaller model
  bool use_generation_config = true;
  double queue_seconds = 600;  // a request that would wait longer is refused
  std::int64_t queue_requests = 4096;
};

class ServedModel {
 public:
  // Reads the model. Errors are those of infer::OpenModel and infer::load_paged_decoder, infer::TextEmbedder;
  // ConfigError: a context or cache too small for any answer.
  ServedModel(const ModelOptions& options, infer::MakeMachine make_machine, std::shared_ptr<Metrics> metrics);

  const ModelOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  bool answers_to(std::string_view name) const;
  std::int64_t created() const { return created_; }  // seconds since 1970
  model::ModelKind kind() const { return model_->kind(); }
  const token::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t vocabulary() const { return model_->model().vocabulary; }
  std::int64_t context() const { return context_; }
  Metrics& metrics() const { return *metrics_; }
  std::shared_ptr<Metrics> shared_metrics() const { return metrics_; }
  const fs::path& directory() const { return model_->directory(); }
  const model::huggingface::GenerationConfig& defaults() const { return defaults_; }
  // What answers may have to be, compiled for the tokenizer.
  constraint::ConstraintStore& constraints() const { return *constraints_; }
  // Ids that end an answer.
  const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }

  bool generates() const { return engine_ != nullptr; }
  // ApiError 400 where the model continues no text, 503 once it was stopped.
  void require_engine() const;
  // Gives the request to the engine; errors as above, and of infer::Engine::check as ApiError 400. A request
  // that ends has called the listener for every choice.
  infer::RequestId submit(infer::Request request, infer::Listener listener);
  void cancel(infer::RequestId request) { loop_->cancel(request); }
  infer::EngineCounters counters() const { return loop_->counters(); }
  const infer::PassLimits& limits() const { return passes_->limits(); }
  Admission& admission() const { return *admission_; }
  // What is open fails, and nothing is taken any more.
  void stop();
  bool stopped() const { return stopped_; }
  // Vectors of texts, scaled to length 1, and how many tokens were read; a call at a time.
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts, std::int64_t& tokens);

  bool has_template() const { return template_.has_value(); }
  const std::string& template_text() const { return tokenizer_->chat_template(); }
  // The ids of a conversation. ApiError 400: no template, or it rejects the messages.
  std::vector<std::int32_t> render(const Json& messages, const Json& variables,
                                   bool add_generation_prompt) const;
  // Ids of a text, special tokens in it read as such; the beginning of text where it would be empty.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special) const;

 private:
  const ModelOptions options_;
  const std::int64_t created_;
  const std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<infer::OpenModel> model_;
  const token::Tokenizer* tokenizer_;
  std::optional<chat::ChatTemplate> template_;
  Json variables_ = Json::object();  // bos_token and the like
  model::huggingface::GenerationConfig defaults_;
  std::vector<std::int32_t> end_tokens_;
  std::int64_t context_ = 0;
  // What a model that continues text has.
  std::unique_ptr<infer::PassModel> passes_;
  std::unique_ptr<infer::Engine> engine_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<constraint::ConstraintStore> constraints_;
  std::atomic<bool> stopped_{false};
  std::mutex requests_mutex_;
  std::set<infer::RequestId> requests_;  // that are open

  std::mutex embedding_;
  std::vector<std::vector<float>> vectors_;  // of the call under way
  std::unique_ptr<infer::TextEmbedder> embedder_;

  std::unique_ptr<infer::EngineLoop> loop_;  // last: what it answers uses the others
};

}  // namespace stoa::serve
