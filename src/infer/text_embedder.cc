#include "infer/text_embedder.h"

#include <algorithm>

namespace stoa::infer {
namespace {

// The last of the tokens that a decoder's tokenizer puts behind a text.
std::optional<token::TokenId> end_of(const token::Tokenizer& tokenizer) {
  const auto& after = tokenizer.spec().after;
  return after.empty() ? std::nullopt : std::optional(after.back());
}

}  // namespace

TextEmbedder::TextEmbedder(OpenModel& model, const EmbeddingOptions& options, Emit emit)
    : emit_(std::move(emit)),
      rank_(load_encoder(model, {.states = true})),
      tokenizer_(model.tokenizer()),
      decoder_(model.kind() == model::ModelKind::kGpt) {
  const fs::path& own = model.adapter_directory().value_or(model.directory());
  const bool adapted = fs::exists(own / "1_Pooling");
  const SentenceOptions said = read_sentence_files(adapted ? own : model.directory(), !options.pooling);
  pooling_ =
      options.pooling ? *options.pooling : said.pooling.value_or(rank_->options().model.config.pooling());
  normalises_ = said.normalises;
  const std::int64_t most = rank_->options().longest;
  require<ConfigError>(options.max_length <= most, "--max-length {}: the model reads at most {} tokens",
                       options.max_length, most);
  longest_ = options.max_length > 0 ? options.max_length
                                    : std::min(most, said.max_length > 0 ? said.max_length : most);
}

std::vector<std::int32_t> TextEmbedder::ids_of(std::string_view text, bool& shortened) const {
  std::vector<token::TokenId> ids = tokenizer_.encode(text, {.plain = false, .add_special = true});
  shortened = static_cast<std::int64_t>(ids.size()) > longest_;
  if (shortened) {
    const auto end = decoder_ ? end_of(tokenizer_) : tokenizer_.sep_id();
    ids.resize(static_cast<std::size_t>(longest_));
    if (end) ids.back() = *end;
  }
  require<DataError>(!ids.empty(), "an empty text: the tokenizer adds nothing to it");
  return ids;
}

std::vector<std::int32_t> TextEmbedder::ids_of(std::string_view text) const {
  bool shortened = false;
  return ids_of(text, shortened);
}

void TextEmbedder::add(std::string_view text) {
  bool shortened = false;
  const std::vector<std::int32_t> ids = ids_of(text, shortened);
  shortened_ += shortened;
  if (static_cast<std::int64_t>(tokens_.size() + ids.size()) > pass_tokens()) flush();
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  lengths_.push_back(static_cast<std::int64_t>(ids.size()));
}

void TextEmbedder::flush() {
  if (lengths_.empty()) return;
  read(tokens_, lengths_, emit_);
  tokens_.clear();
  lengths_.clear();
}

void TextEmbedder::read(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
                        const Emit& emit) {
  const std::span<const float> states = rank_->states(tokens, lengths);
  const auto hidden = static_cast<std::size_t>(rank_->options().model.config.hidden_size);
  std::size_t token = 0;
  for (const std::int64_t length : lengths) {
    const auto used = static_cast<std::size_t>(pooling_ == Pooling::kMean ? length : 1),
               first = static_cast<std::size_t>(pooling_ == Pooling::kLastToken ? length - 1 : 0);
    std::vector<double> vector(hidden, 0.0);
    for (std::size_t t = first; t < first + used; ++t)
      for (std::size_t i = 0; i < hidden; ++i)
        vector[i] += static_cast<double>(states[(token + t) * hidden + i]) / static_cast<double>(used);
    token += static_cast<std::size_t>(length);
    emit(vector);
  }
}

}  // namespace stoa::infer
