#include "serve/served_model.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/file.h"
#include "infer/chat_session.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/prompt_lookup.h"

namespace stoa::serve {
namespace {

std::unique_ptr<infer::PassModel> load_passes(infer::OpenModel& model, const ModelOptions& options) {
  infer::EngineUse use;
  use.context = options.max_context;
  if (options.cache_gigabytes) use.cache_bytes = *options.cache_gigabytes * 1e9;
  try {
    return infer::load_paged_decoder(model, use);
  } catch (const ConfigError& error) {
    if (options.cache_gigabytes)
      fail<ConfigError>("--kv-memory-gb {:g}: {}", *options.cache_gigabytes, error.what());
    throw;
  }
}

}  // namespace

ServedModel::ServedModel(const ModelOptions& options, infer::MakeMachine make_machine,
                         std::shared_ptr<Metrics> metrics)
    : options_(options),
      created_(std::time(nullptr)),
      metrics_(std::move(metrics)),
      model_(std::make_unique<infer::OpenModel>(options.path, options.dtype, make_machine, options.adapter)),
      tokenizer_(&model_->tokenizer()) {
  namespace hf = model::huggingface;
  const fs::path config = model_->generation_directory() / hf::GenerationConfig::kFile;
  if (options.use_generation_config && fs::exists(config)) {
    try {
      defaults_ = hf::read_generation_config(read_text(config));
    } catch (const ConfigError& error) {
      fail<ConfigError>("{}: {}; --no-generation-config ignores it", config.string(), error.what());
    }
  }
  for (const auto id : defaults_.special.eos.empty() ? model_->special().eos : defaults_.special.eos)
    end_tokens_.push_back(static_cast<std::int32_t>(id));
  for (const auto id : {tokenizer_->eod_id(), tokenizer_->eos_id()})
    if (id && std::find(end_tokens_.begin(), end_tokens_.end(), *id) == end_tokens_.end())
      end_tokens_.push_back(*id);
  infer::name_special_tokens(*tokenizer_, variables_);
  if (!tokenizer_->chat_template().empty()) template_.emplace(tokenizer_->chat_template());

  if (kind() == model::ModelKind::kBert) {
    embedder_ = std::make_unique<infer::TextEmbedder>(
        *model_, infer::EmbeddingOptions{}, [this](std::span<const double> vector) {
          double squares = 0;
          for (const double x : vector) squares += x * x;
          const double scale = squares == 0 ? 1 : 1 / std::sqrt(squares);
          std::vector<float>& out = vectors_.emplace_back();
          for (const double x : vector) out.push_back(static_cast<float>(x * scale));
        });
    context_ = embedder_->longest();
    return;
  }
  require<ConfigError>(kind() == model::ModelKind::kGpt,
                       "{}: encoder-decoders are not served: stoa generate uses them", options.path.string());
  passes_ = load_passes(*model_, options);
  admission_ = std::make_unique<Admission>(options.queue_seconds, options.queue_requests);
  std::unique_ptr<infer::Drafter> drafter;
  if (options.prompt_lookup) drafter = std::make_unique<infer::PromptLookup>();
  if (options.draft)
    drafter =
        infer::load_draft_model(*options.draft, options.dtype, make_machine, *tokenizer_, passes_->limits());
  engine_ = std::make_unique<infer::Engine>(*passes_, std::move(drafter));
  context_ = engine_->context();
  constraints_ = std::make_unique<constraint::ConstraintStore>(*tokenizer_, vocabulary());
  loop_ = std::make_unique<infer::EngineLoop>(*engine_);
}

bool ServedModel::answers_to(std::string_view name) const {
  return name == options_.name ||
         std::find(options_.aliases.begin(), options_.aliases.end(), name) != options_.aliases.end();
}

void ServedModel::require_engine() const {
  check(generates(), "model", "the model '{}' is an encoder: it has embeddings, and continues no text",
        name());
  if (stopped_) throw ApiError(503, "the server is shutting down");
}

infer::RequestId ServedModel::submit(infer::Request request, infer::Listener listener) {
  require_engine();
  const auto open = std::make_shared<int>(request.choices);
  // Held until the id is known: the engine may end the request before.
  const std::lock_guard lock(requests_mutex_);
  try {
    const infer::RequestId id = loop_->submit(
        std::move(request), [this, open, listener = std::move(listener)](const infer::Event& event) {
          const bool on = listener(event);
          if (event.kind == infer::Event::Kind::kEnd && --*open == 0) {
            const std::lock_guard ended(requests_mutex_);
            requests_.erase(event.request);
          }
          return on;
        });
    requests_.insert(id);
    return id;
  } catch (const DataError& error) {
    throw ApiError(400, error.what(), "prompt");
  } catch (const ConfigError& error) {
    throw ApiError(400, error.what());
  }
}

void ServedModel::stop() {
  if (!generates()) return;
  {
    const std::lock_guard lock(requests_mutex_);
    stopped_ = true;
    for (const infer::RequestId request : requests_) loop_->cancel(request);
  }
  loop_->wait_idle(std::chrono::seconds(5));
}

std::vector<std::vector<float>> ServedModel::embed(const std::vector<std::string>& texts,
                                                   std::int64_t& tokens) {
  check(embedder_ != nullptr, "model", "the model '{}' is no encoder: it has no embeddings", name());
  const std::lock_guard lock(embedding_);
  vectors_.clear();
  tokens = 0;
  for (const std::string& text : texts) {
    tokens += std::min<std::int64_t>(
        context_, std::ssize(tokenizer_->encode(text, {.plain = false, .add_special = true})));
    embedder_->add(text);
  }
  embedder_->flush();
  return std::exchange(vectors_, {});
}

std::vector<std::int32_t> ServedModel::render(const Json& messages, const Json& variables,
                                              bool add_generation_prompt) const {
  check(template_.has_value(), "messages",
        "the model '{}' has no chat template: it was not tuned to answer; /v1/completions continues texts",
        name());
  chat::RenderOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.variables = variables_;
  options.variables.update(variables);
  std::vector<std::int32_t> ids;
  try {
    ids = tokenizer_->encode(template_->render(messages, options), {.plain = false, .add_special = false});
  } catch (const chat::TemplateError& error) {
    reject("messages", "the chat template of the model rejects the messages: {}", error.what());
  }
  check(!ids.empty(), "messages", "the chat template renders nothing");
  return ids;
}

std::vector<std::int32_t> ServedModel::encode(std::string_view text, bool add_special) const {
  std::vector<std::int32_t> ids = tokenizer_->encode(text, {.plain = false, .add_special = add_special});
  if (!ids.empty()) return ids;
  const auto start = tokenizer_->bos_id() ? tokenizer_->bos_id() : tokenizer_->eod_id();
  check(start.has_value(), "prompt", "an empty prompt, and the tokenizer has no beginning-of-text token");
  return {*start};
}

}  // namespace stoa::serve
