#include "serve/served_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "infer/chat_session.h"
#include "infer/engine/paged_decoder.h"
#include "infer/token_pair.h"

namespace stoa::serve {
namespace hf = model::huggingface;

ServedModel::ServedModel(ModelOptions options, std::shared_ptr<infer::OpenModel> model,
                         std::shared_ptr<Metrics> metrics)
    : options_(std::move(options)), metrics_(std::move(metrics)), model_(std::move(model)) {}

void ServedModel::read_small_files(const std::optional<fs::path>& adapter) {
  std::error_code ignored;
  if (adapter && fs::exists(*adapter / "tokenizer_config.json", ignored)) {
    own_tokenizer_ = token::Tokenizer::load(*adapter);
    require<DataError>(own_tokenizer_->vocab_size() <= vocabulary(),
                       "{}: the tokenizer has {} ids, the model's vocabulary {}: they do not belong together",
                       adapter->string(), own_tokenizer_->vocab_size(), vocabulary());
  }
  tokenizer_ = own_tokenizer_ ? &*own_tokenizer_ : &model_->tokenizer();
  require<DataError>(!reads_sources() || tokenizer_->eos_id(),
                     "{}: the tokenizer has no end-of-text token (</s>), which ends a source",
                     options_.path.string());
  fs::path config = model_->generation_directory() / hf::GenerationConfig::kFile;
  if (adapter && fs::exists(*adapter / hf::GenerationConfig::kFile, ignored))
    config = *adapter / hf::GenerationConfig::kFile;
  if (options_.use_generation_config && fs::exists(config)) {
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
  template_ = infer::chat_template_of(*tokenizer_);
}

// An encoder keeps no keys and values, draws no tokens, and is in no quantised file.
void ServedModel::note_unused_options() {
  std::vector<std::string> unused;
  if (options_.cache) unused.emplace_back("--kv-dtype");
  if (options_.cache_gigabytes) unused.emplace_back("--kv-memory-gb");
  if (options_.max_context) unused.emplace_back("--max-context");
  if (options_.prompt_lookup) unused.emplace_back("--prompt-lookup");
  if (options_.draft) unused.emplace_back("--draft");
  if (!options_.weights_given.empty()) unused.push_back(options_.weights_given);
  if (unused.empty()) return;
  require<ConfigError>(!options_.only, "{}: {} {} for models that continue a text, and this is an encoder",
                       options_.path.string(), fmt::join(unused, ", "), unused.size() == 1 ? "is" : "are");
  notes_.push_back(fmt::format("{} {} no effect on an encoder", fmt::join(unused, ", "),
                               unused.size() == 1 ? "has" : "have"));
}

namespace {

// Options of an adapter with an engine of its own.
ModelOptions alone(const ModelOptions& options, const NamedAdapter& adapter) {
  ModelOptions of = options;
  of.name = adapter.name;
  of.aliases.clear();
  of.adapter = adapter.path;
  of.adapters.clear();
  return of;
}

// Whether adapters of the model have engines of their own.
bool apart(const infer::OpenModel& model) {
  return model.kind() != model::ModelKind::kGpt || infer::reads_one_text(model.model().config);
}

std::vector<infer::AdapterFiles> open_adapters(const infer::OpenModel& model, const ModelOptions& options) {
  std::vector<infer::AdapterFiles> files;
  for (const NamedAdapter& adapter : options.adapters) files.push_back(model.open_adapter(adapter.path));
  return files;
}

// Behind the content of the last message, where the text is cut off.
constexpr const char* kEndMark = "<<the message continues here>>";

Json with_end_mark(Json messages) {
  Json& last = messages.back();
  auto content = last.value("content", std::string());
  check(last.value("role", "") == "assistant" && !content.empty(), "messages",
        "what is continued must be a message of the assistant with a text, and the last one");
  last["content"] = content + kEndMark;
  return messages;
}

}  // namespace

std::shared_ptr<infer::OpenModel> ServedModel::open(const ModelOptions& options,
                                                    const infer::MakeMachine& make_machine) {
  auto opened = std::make_shared<infer::OpenModel>(options.path, options.dtype, make_machine, options.adapter,
                                                   options.weights);
  require<ConfigError>(opened->kind() != model::ModelKind::kBert || options.team == nullptr,
                       "{}: ranks (--tp, --ep, --pp) share models that write texts, and this is an encoder",
                       options.path.string());
  require<ConfigError>(
      opened->kind() != model::ModelKind::kT5 || !(options.prompt_lookup || options.draft),
      "{}: --prompt-lookup and --draft are for models that continue a text, and this is an encoder-decoder",
      options.path.string());
  return opened;
}

std::size_t ServedModel::measure(const ModelOptions& options, const infer::MakeMachine& make_machine) {
  const auto opened = open(options, make_machine);
  if (!apart(*opened))
    return ServedEngine::measure(*opened, open_adapters(*opened, options), options, make_machine);
  std::size_t bytes = opened->kind() == model::ModelKind::kBert
                          ? opened->measure<infer::EncoderRank>(infer::encoder_options(*opened, {}))
                          : ServedEngine::measure(*opened, {}, options, make_machine);
  for (const NamedAdapter& adapter : options.adapters)
    bytes += measure(alone(options, adapter), make_machine);
  return bytes;
}

std::vector<std::shared_ptr<ServedModel>> ServedModel::load(
    const ModelOptions& options, const infer::MakeMachine& make_machine,
    std::span<const std::shared_ptr<Metrics>> metrics) {
  std::vector<std::shared_ptr<ServedModel>> out;
  const auto add = [&](const ModelOptions& of, std::shared_ptr<infer::OpenModel> model) -> ServedModel& {
    out.emplace_back(new ServedModel(of, std::move(model), metrics[out.size()]));
    return *out.back();
  };
  const auto opened = open(options, make_machine);
  ServedModel& first = add(options, opened);
  first.read_small_files(std::nullopt);
  if (first.kind() == model::ModelKind::kBert) first.note_unused_options();
  if (apart(*opened)) {
    if (first.kind() == model::ModelKind::kBert) {
      first.encoder_ = std::make_unique<ServedEncoder>(*opened, options);
      first.context_ = first.encoder_->longest();
    } else {
      first.engine_ =
          std::make_shared<ServedEngine>(*opened, std::vector<infer::AdapterFiles>{}, options, make_machine);
    }
    for (const NamedAdapter& adapter : options.adapters) {
      const auto own = load(alone(options, adapter), make_machine, metrics.subspan(out.size(), 1));
      out.insert(out.end(), own.begin(), own.end());
    }
  } else {
    const std::vector<infer::AdapterFiles> files = open_adapters(*opened, options);
    for (std::size_t i = 0; i < files.size(); ++i)
      if (infer::needs_numbers(files[i]) && opened->stored_types() != nullptr)
        first.notes_.push_back(
            fmt::format("the DoRA adapter '{}' needs the weights as numbers: those of the quantised file are "
                        "decoded, and "
                        "answers of '{}' itself are those with --decoded-weights",
                        options.adapters[i].name, first.name()));
    first.engine_ = std::make_shared<ServedEngine>(*opened, files, options, make_machine);
    for (std::size_t i = 0; i < files.size(); ++i) {
      ServedModel& adapted = add(alone(options, options.adapters[i]), opened);
      adapted.read_small_files(files[i].directory());
      adapted.base_ = out.front();
      adapted.adapter_ = static_cast<int>(i) + 1;
      adapted.engine_ = first.engine_;
    }
  }
  for (const auto& model : out) {
    if (!model->generates() || model->constraints_) continue;
    model->context_ = model->engine_->context(model->adapter_);
    model->constraints_ =
        std::make_unique<constraint::ConstraintStore>(*model->tokenizer_, model->vocabulary());
  }
  return out;
}

void ServedModel::require_engine() const {
  check(generates(), "model", "the model '{}' is an encoder: it has embeddings, and continues no text",
        name());
  if (stopped()) throw ApiError(503, "the server is shutting down");
}

infer::RequestId ServedModel::submit(infer::Request request, infer::Listener listener) {
  require_engine();
  request.adapter = adapter_;
  try {
    return engine_->submit(std::move(request), std::move(listener));
  } catch (const DataError& error) {
    throw ApiError(400, error.what(), "prompt");
  } catch (const ConfigError& error) {
    throw ApiError(400, error.what());
  }
}

void ServedModel::stop() {
  if (generates()) engine_->stop();
  if (encoder_) encoder_->stop();
}

ServedEncoder& ServedModel::encoder() const {
  check(encoder_ != nullptr, "model", "the model '{}' is no encoder: it has no embeddings", name());
  return *encoder_;
}

std::vector<std::int32_t> ServedModel::render(const Json& messages, const Json& variables, Next next) const {
  check(template_.has_value(), "messages",
        "the model '{}' has no chat template: it was not tuned to answer; /v1/completions continues texts",
        name());
  chat::RenderOptions options;
  options.add_generation_prompt = next == Next::kAnswer;
  options.variables = variables_;
  options.variables.update(variables);
  std::string text;
  try {
    text = template_->render(next == Next::kRestOfLast ? with_end_mark(messages) : messages, options);
  } catch (const chat::TemplateError& error) {
    reject("messages", "the chat template of the model rejects the messages: {}", error.what());
  }
  if (next == Next::kRestOfLast) {
    const std::size_t end = text.rfind(kEndMark);
    check(end != std::string::npos, "messages", "the chat template leaves out what is to be continued");
    text.resize(end);
  }
  std::vector<std::int32_t> ids = tokenizer_->encode(text, {.plain = false, .add_special = false});
  check(!ids.empty(), "messages", "the chat template renders nothing");
  return ids;
}

std::vector<std::int32_t> ServedModel::ids_of(std::string_view text, bool add_special) const {
  if (reads_sources() && add_special) return infer::ids_with_end(*tokenizer_, text);
  return tokenizer_->encode(text, {.plain = false, .add_special = add_special});
}

std::vector<std::int32_t> ServedModel::encode(std::string_view text, bool add_special) const {
  std::vector<std::int32_t> ids = ids_of(text, add_special);
  if (!ids.empty()) return ids;
  const auto start = tokenizer_->bos_id() ? tokenizer_->bos_id() : tokenizer_->eod_id();
  check(start.has_value(), "prompt", "an empty prompt, and the tokenizer has no beginning-of-text token");
  return {*start};
}

}  // namespace stoa::serve
