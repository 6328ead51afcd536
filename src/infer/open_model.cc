#include "infer/open_model.h"

#include "ckpt/find_checkpoint.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "infer/read_weights.h"

namespace stoa::infer {

OpenModel::OpenModel(const fs::path& path, std::optional<DType> dtype, MakeMachine make_machine)
    : directory_(ckpt::find_checkpoint(path, ckpt::Verify::kModel).model),
      files_(directory_),
      model_(files_->model()),
      model_type_(files_->description().family->type),
      special_(files_->description().special),
      type_(dtype.value_or(files_->stored_type())),
      make_machine_(std::move(make_machine)) {}

void OpenModel::require_kind(model::ModelKind wanted) const {
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

const token::Tokenizer& OpenModel::tokenizer() {
  if (!tokenizer_) {
    token::Tokenizer read = token::Tokenizer::load(foreign::tokenizer_directory(directory_));
    require<DataError>(read.vocab_size() <= model_.vocabulary,
                       "{}: the tokenizer has {} ids, the model's vocabulary {}: they do not belong together",
                       directory_.string(), read.vocab_size(), model_.vocabulary);
    tokenizer_ = std::move(read);
  }
  return *tokenizer_;
}

Machine& OpenModel::machine() {
  if (!machine_) machine_ = std::make_unique<Machine>(make_machine_());
  return *machine_;
}

void OpenModel::read_weights(optim::ParameterStore& parameters) {
  require<InternalError>(files_.has_value(), "{}: the weights were read before", directory_.string());
  infer::read_weights(machine(), *files_, HeldParameters::whole(parameters.specs()),
                      [&](nn::ParamId id) { return parameters.get(id); });
  files_.reset();
}

}  // namespace stoa::infer
