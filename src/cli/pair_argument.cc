#include "cli/pair_argument.h"

#include <algorithm>

#include "ckpt/find_checkpoint.h"
#include "cli/load_rank.h"

namespace stoa::cli {

PairModel::PairModel(const ModelArguments& arguments, bool tokenizer)
    : arguments_(arguments),
      directory_(ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel).model),
      files_(directory_) {
  require<ConfigError>(model().config.kind == model::ModelKind::kT5,
                       "{}: model_type {} is not an encoder-decoder; expected t5 or mt5", directory_.string(),
                       files_.description().family->type);
  if (tokenizer) tokenizer_ = load_tokenizer(directory_, model());
}

std::int32_t PairModel::start() const {
  const auto& special = files_.description().special;
  return static_cast<std::int32_t>(special.decoder_start.value_or(special.pad.value_or(0)));
}

std::vector<std::int32_t> PairModel::ids_of(std::string_view text) const {
  std::vector<std::int32_t> ids = tokenizer_->encode(text, {.plain = false, .add_special = true});
  const auto eos = tokenizer_->eos_id();
  require<DataError>(eos.has_value(),
                     "{}: the tokenizer has no end-of-text token (</s>), which ends a source",
                     directory_.string());
  if (ids.empty() || ids.back() != *eos) ids.push_back(*eos);
  check_length(ids.size());
  return ids;
}

std::int64_t PairModel::longest(std::int64_t most) const {
  const model::ModelConfig& config = model().config;
  return config.position_embedding_type == model::PositionEmbedding::kRelative
             ? most
             : std::min(most, config.max_positions());
}

void PairModel::check_length(std::size_t tokens) const {
  const auto count = static_cast<std::int64_t>(tokens);
  require<DataError>(longest(count) == count, "a text of {} tokens, the model reads at most {}", count,
                     longest(count));
}

TokenPair PairModel::pair_of(std::string_view line, std::int64_t number,
                             const std::function<std::vector<std::int32_t>(std::string_view)>& ids) const {
  const auto tab = line.find('\t');
  require<DataError>(tab != std::string_view::npos && line.find('\t', tab + 1) == std::string_view::npos,
                     "line {}: an encoder-decoder needs a source, a tab and a target", number);
  TokenPair pair{ids(line.substr(0, tab)), ids(line.substr(tab + 1))};
  require<DataError>(!pair.source.empty() && !pair.target.empty(), "line {}: no ids on a side of the tab",
                     number);
  return pair;
}

infer::EncoderDecoderRank& PairModel::load_for(std::span<const TokenPair> pairs) {
  Sizes sizes;
  for (const TokenPair& pair : pairs) {
    sizes.source_tokens = std::max(sizes.source_tokens, static_cast<std::int64_t>(pair.source.size()));
    sizes.target_tokens = std::max(sizes.target_tokens, static_cast<std::int64_t>(pair.target.size()));
  }
  return load(sizes);
}

std::vector<float> PairModel::target_losses(const TokenPair& pair) {
  std::vector<std::int32_t> inputs{start()};
  inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
  std::vector<float> losses(inputs.size());
  rank_->losses(pair.source, inputs, pair.target, losses);
  return losses;
}

infer::EncoderDecoderRank& PairModel::load(const Sizes& sizes) {
  machine_ = std::make_unique<infer::Machine>(make_machine(arguments_.machine));
  const infer::EncoderDecoderOptions options{.model = model(),
                                             .precision = precision_of(arguments_, files_),
                                             .sources = sizes.sources,
                                             .source_tokens = sizes.source_tokens,
                                             .targets = sizes.targets,
                                             .target_tokens = sizes.target_tokens};
  rank_ = load_rank<infer::EncoderDecoderRank>(*machine_, options, files_);
  return *rank_;
}

}  // namespace stoa::cli
