// A model, or a model with one of its adapters, that the server offers under a name: its files, tokenizer,
// chat template, defaults and engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "constraint/store.h"
#include "infer/engine/request.h"
#include "infer/open_model.h"
#include "model/huggingface/generation_config.h"
#include "serve/admission.h"
#include "serve/metrics.h"
#include "serve/request_body.h"
#include "serve/served_encoder.h"
#include "serve/served_engine.h"
#include "token/tokenizer.h"

namespace stoa::serve {

class ServedModel {
 public:
  // Reads the model, and those of `options.adapters`, each of which is one more: the model comes first. They
  // share its weights, engine and memory where it reads several texts at a time; otherwise each has its own.
  // Errors are those of infer::OpenModel, ServedEngine and infer::TextEmbedder; ConfigError: a context or
  // cache too small for any answer. `metrics`: of the model and of each adapter.
  static std::vector<std::shared_ptr<ServedModel>> load(const ModelOptions& options,
                                                        const infer::MakeMachine& make_machine,
                                                        std::span<const std::shared_ptr<Metrics>> metrics);
  // Bytes of memory that load() would take for weights, keys and values, and buffers. Errors of load().
  static std::size_t measure(const ModelOptions& options, const infer::MakeMachine& make_machine);

  const ModelOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  model::ModelKind kind() const { return model_->kind(); }
  const token::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t vocabulary() const { return model_->model().vocabulary; }
  std::int64_t context() const { return context_; }  // of an encoder-decoder, of its sources
  // Tokens that an answer to such a prompt may have.
  std::int64_t room(std::int64_t prompt) const { return engine_->room(prompt, adapter_); }
  // Whether it is an encoder-decoder: prompts are sources, and answers are texts of their own.
  bool reads_sources() const { return kind() == model::ModelKind::kT5; }
  Metrics& metrics() const { return *metrics_; }
  const fs::path& directory() const { return model_->directory(); }
  const model::huggingface::GenerationConfig& defaults() const { return defaults_; }
  // What answers may have to be, compiled for the tokenizer.
  constraint::ConstraintStore& constraints() const { return *constraints_; }
  // Ids that end an answer.
  const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }

  // What is other than its options let one expect, in sentences.
  const std::vector<std::string>& notes() const { return notes_; }

  // The model whose engine this adapter shares; null: it has its own.
  const ServedModel* base() const { return base_.get(); }

  bool generates() const { return engine_ != nullptr; }
  // ApiError 400 where the model continues no text, 503 once it was stopped.
  void require_engine() const;
  // Gives the request to the engine; errors as above, and of infer::Engine::check as ApiError 400. A request
  // that ends has called the listener for every choice.
  infer::RequestId submit(infer::Request request, infer::Listener listener);
  void cancel(infer::RequestId request) { engine_->cancel(request); }
  infer::EngineCounters counters() const { return engine_->counters(); }
  const infer::PassLimits& limits() const { return engine_->limits(); }
  infer::PoolMemory pool() const { return engine_->pool(); }
  Admission& admission() const { return engine_->admission(); }
  // What is open fails, and nothing is taken any more.
  void stop();
  bool stopped() const { return engine_ && engine_->stopped(); }
  // Null where it is no encoder.
  const ServedEncoder* encodes() const { return encoder_.get(); }
  // ApiError 400: it is no encoder.
  ServedEncoder& encoder() const;

  bool has_template() const { return template_.has_value(); }
  const std::string& template_text() const { return tokenizer_->chat_template(); }
  const std::string& tool_template_text() const { return tokenizer_->tool_template(); }
  // What comes behind a conversation: nothing, the beginning of an answer, or more of its last message.
  enum class Next : std::uint8_t { kNothing, kAnswer, kRestOfLast };
  // The ids of a conversation. ApiError 400: no template, it rejects the messages, or nothing of the
  // assistant is there to be continued.
  std::vector<std::int32_t> render(const Json& messages, const Json& variables, Next next) const;
  // Ids of a text, special tokens in it read as such. `add_special`: with those that the tokenizer adds; a
  // source ends with the end token.
  std::vector<std::int32_t> ids_of(std::string_view text, bool add_special) const;
  // The same; the beginning of text where it would be empty.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special) const;

 private:
  ServedModel(ModelOptions options, std::shared_ptr<infer::OpenModel> model,
              std::shared_ptr<Metrics> metrics);
  static std::shared_ptr<infer::OpenModel> open(const ModelOptions& options,
                                                const infer::MakeMachine& make_machine);
  // Tokenizer, defaults and template: those of `adapter`, where its directory has them, or of the model.
  void read_small_files(const std::optional<fs::path>& adapter);
  void note_unused_options();

  const ModelOptions options_;
  std::vector<std::string> notes_;
  const std::shared_ptr<Metrics> metrics_;
  std::shared_ptr<const ServedModel> base_;
  std::shared_ptr<infer::OpenModel> model_;
  std::optional<token::Tokenizer> own_tokenizer_;  // an adapter's
  const token::Tokenizer* tokenizer_ = nullptr;
  std::optional<chat::ChatTemplate> template_;
  Json variables_ = Json::object();  // bos_token and the like
  model::huggingface::GenerationConfig defaults_;
  std::vector<std::int32_t> end_tokens_;
  std::int64_t context_ = 0;

  std::unique_ptr<ServedEncoder> encoder_;  // of an encoder

  // What a model that continues text has.
  std::unique_ptr<constraint::ConstraintStore> constraints_;
  int adapter_ = 0;                       // its number in the engine
  std::shared_ptr<ServedEngine> engine_;  // last: what it answers uses the others
};

}  // namespace stoa::serve
