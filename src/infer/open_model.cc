#include "infer/open_model.h"

#include "ckpt/find_checkpoint.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "infer/open_base.h"
#include "infer/read_weights.h"
#include "model/huggingface/generation_config.h"

namespace stoa::infer {

namespace {

// The adapter at `path` and the model at `model`; both or none of them from one place.
ckpt::FoundCheckpoint find_model(const fs::path& model, const std::optional<fs::path>& adapter) {
  ckpt::FoundCheckpoint found = ckpt::find_checkpoint(model, ckpt::Verify::kModel);
  if (!adapter) return found;
  require<ConfigError>(!found.adapter, "'{}' has an adapter already: give the model that '{}' belongs to",
                       model.string(), adapter->string());
  found.adapter = ckpt::find_adapter(*adapter, found.model);
  return found;
}

}  // namespace

OpenModel::OpenModel(const fs::path& path, std::optional<DType> dtype, MakeMachine make_machine,
                     const std::optional<fs::path>& adapter, QuantisedWeights weights)
    : OpenModel(find_model(path, adapter), dtype, std::move(make_machine), weights) {}

OpenModel::OpenModel(const ckpt::FoundCheckpoint& found, std::optional<DType> dtype, MakeMachine make_machine,
                     QuantisedWeights weights)
    : directory_(found.model),
      files_(open_base(directory_, found.adapter)),
      model_(files_->model()),
      model_type_(files_->description().family->type),
      special_(files_->description().special),
      type_(dtype.value_or(files_->stored_type())),
      weights_(weights),
      make_machine_(std::move(make_machine)) {
  if (!found.adapter) return;
  adapter_directory_ = found.adapter;
  adapter_.emplace(*found.adapter, model_, model_type_);
  model_ = adapter_->model();
  for (const std::string& name : files_->fresh())
    require<DataError>(adapter_->find(name) != nullptr,
                       "'{}' has no {}, and '{}' does not hold it: it is an adapter of a model that has it",
                       directory_.string(), name, found.adapter->string());
}

void OpenModel::require_kind(model::ModelKind wanted) const {
  require<ConfigError>(kind() != model::ModelKind::kGpt || !model_.config.task.embeds(),
                       "{}: the model makes vectors of texts and does not predict text: use 'stoa embed'",
                       directory_.string());
  require<ConfigError>(kind() != model::ModelKind::kGpt || !model_.config.task.labelled(),
                       "{}: the model has the head of a labelled task and does not predict text: use 'stoa "
                       "predict'",
                       directory_.string());
  if (kind() == wanted) return;
  switch (wanted) {
    case model::ModelKind::kGpt:
      require<ConfigError>(kind() != model::ModelKind::kT5,
                           "{}: an encoder-decoder does not continue a text: use 'stoa generate' for "
                           "prompts, 'stoa score' for pairs",
                           directory_.string());
      fail<ConfigError>(
          "{}: an encoder does not continue text; use 'stoa embed', 'stoa score', or 'stoa generate' with "
          "masks "
          "in the prompt",
          directory_.string());
    case model::ModelKind::kBert:
      fail<ConfigError>("{}: model_type {} is not an encoder; expected bert or roberta", directory_.string(),
                        model_type_);
    case model::ModelKind::kT5:
      fail<ConfigError>("{}: model_type {} is not an encoder-decoder; expected t5 or mt5",
                        directory_.string(), model_type_);
  }
}

const fs::path& OpenModel::generation_directory() const {
  std::error_code ignored;
  const bool own = adapter_directory_ &&
                   fs::exists(*adapter_directory_ / model::huggingface::GenerationConfig::kFile, ignored);
  return own ? *adapter_directory_ : directory_;
}

const token::Tokenizer& OpenModel::tokenizer() {
  if (!tokenizer_) {
    // PEFT's directories hold the tokenizer with which the adapter was trained, or none.
    std::error_code ignored;
    const bool own = adapter_directory_ && fs::exists(*adapter_directory_ / "tokenizer_config.json", ignored);
    const fs::path directory = own ? *adapter_directory_ : foreign::tokenizer_directory(directory_);
    token::Tokenizer read = token::Tokenizer::load(directory);
    require<DataError>(read.vocab_size() <= model_.vocabulary,
                       "{}: the tokenizer has {} ids, the model's vocabulary {}: they do not belong together",
                       directory.string(), read.vocab_size(), model_.vocabulary);
    tokenizer_ = std::move(read);
  }
  return *tokenizer_;
}

Machine& OpenModel::machine() {
  if (!machine_) machine_ = std::make_unique<Machine>(make_machine_());
  return *machine_;
}

AdapterFiles OpenModel::open_adapter(const fs::path& path) const {
  require<ConfigError>(!adapter_directory_, "'{}' is an adapter already: give the model that '{}' belongs to",
                       adapter_directory_.value_or(fs::path()).string(), path.string());
  return AdapterFiles(ckpt::find_adapter(path, directory_), model_, model_type_);
}

void OpenModel::read_adapter(const AdapterFiles& files, optim::ParameterStore& own) {
  infer::read_weights(machine(), files, HeldParameters::whole(own.specs()),
                      [&](nn::ParamId id) { return own.get(id); });
}

std::shared_ptr<const nn::StoredTypes> OpenModel::stored_types() {
  const bool numbers = model_.config.peft.is_lora() && model_.config.peft.lora.use_dora;
  if (weights_ == QuantisedWeights::kDecoded || numbers || type_ == DType::kF64) return nullptr;
  return files_->stored_types(machine().backend->multiplies_stored_experts());
}

void OpenModel::read_weights(optim::ParameterStore& parameters, bool shared) {
  require<InternalError>(files_.has_value(), "{}: the weights were read before", directory_.string());
  const auto memory = [&](nn::ParamId id) { return parameters.get(id); };
  const auto& specs = parameters.specs();
  const HeldParameters all = shared ? HeldParameters::share(specs, model_) : HeldParameters::whole(specs);
  infer::read_weights(machine(), *files_, all.without_adapters(specs).without_bytes(specs), memory);
  read_stored_weights(machine(), *files_, specs, memory);
  if (adapter_) infer::read_weights(machine(), *adapter_, all, memory);
  files_.reset();
  adapter_.reset();
}

}  // namespace stoa::infer
