#include "infer/pair_model.h"

#include <algorithm>

namespace stoa::infer {

PairModel::PairModel(OpenModel& model, bool tokenizer) : model_(model) {
  model_.require_kind(model::ModelKind::kT5);
  if (tokenizer) model_.tokenizer();
}

std::int32_t PairModel::start() const {
  const auto& special = model_.special();
  return static_cast<std::int32_t>(special.decoder_start.value_or(special.pad.value_or(0)));
}

std::vector<std::int32_t> PairModel::ids_of(std::string_view text) const {
  std::vector<std::int32_t> ids = tokenizer().encode(text, {.plain = false, .add_special = true});
  const auto eos = tokenizer().eos_id();
  require<DataError>(eos.has_value(),
                     "{}: the tokenizer has no end-of-text token (</s>), which ends a source",
                     model_.directory().string());
  if (ids.empty() || ids.back() != *eos) ids.push_back(*eos);
  check_length(ids.size());
  return ids;
}

std::int64_t PairModel::longest(std::int64_t most) const {
  const model::ModelConfig& config = model_.model().config;
  return config.position_embedding_type == model::PositionEmbedding::kRelative
             ? most
             : std::min(most, config.max_positions() - config.peft.virtual_count());
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

EncoderDecoderRank& PairModel::load_for(std::span<const TokenPair> pairs) {
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

EncoderDecoderRank& PairModel::load(const Sizes& sizes) {
  const EncoderDecoderOptions options{.model = model_.model(),
                                      .precision = model_.precision(),
                                      .sources = sizes.sources,
                                      .source_tokens = sizes.source_tokens,
                                      .targets = sizes.targets,
                                      .target_tokens = sizes.target_tokens};
  rank_ = model_.load<EncoderDecoderRank>(options);
  return *rank_;
}

}  // namespace stoa::infer
