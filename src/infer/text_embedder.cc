#include "infer/text_embedder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace stoa::infer {
namespace {

// The settings of a sentence-transformers directory besides the model, with defaults for missing ones.
struct SentenceOptions {
  Pooling pooling = Pooling::kMean;
  std::int64_t max_length = 0;
  bool normalises = false;
};

// modules.json: a list of {"type": "sentence_transformers.models.Normalize", …}.
bool names_normalize(const fs::path& path) {
  if (!fs::exists(path)) return false;
  const auto modules = nlohmann::json::parse(read_text(path), nullptr, false);
  return modules.is_array() && std::any_of(modules.begin(), modules.end(), [](const nlohmann::json& module) {
           return module.is_object() && module.contains("type") && module["type"].is_string() &&
                  module["type"].get<std::string>().ends_with(".Normalize");
         });
}

nlohmann::json read_object(const fs::path& path) {
  if (!fs::exists(path)) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  require<DataError>(json.is_object(), "{} is not a JSON object", path.string());
  return json;
}

// `pooled`: the pooling is asked for; otherwise it may be one that is not supported.
SentenceOptions sentence_options(const fs::path& directory, bool pooled) {
  SentenceOptions out;
  const fs::path pooling = directory / "1_Pooling" / "config.json";
  const auto modes = pooled ? read_object(pooling) : nlohmann::json::object();
  for (const auto& [key, value] : modes.items()) {
    if (!key.starts_with("pooling_mode_") || !value.is_boolean() || !value.get<bool>()) continue;
    require<ConfigError>(key == "pooling_mode_cls_token" || key == "pooling_mode_mean_tokens",
                         "{}: {} is not supported; name one yourself: --pooling mean or cls",
                         pooling.string(), key);
    out.pooling = key == "pooling_mode_cls_token" ? Pooling::kFirstToken : Pooling::kMean;
  }
  const auto sentence = read_object(directory / "sentence_bert_config.json");
  if (const auto length = sentence.find("max_seq_length");
      length != sentence.end() && length->is_number_integer())
    out.max_length = length->get<std::int64_t>();
  out.normalises = names_normalize(directory / "modules.json");
  return out;
}

}  // namespace

TextEmbedder::TextEmbedder(OpenModel& model, const EmbeddingOptions& options, Emit emit)
    : emit_(std::move(emit)), rank_(load_encoder(model, {})), tokenizer_(model.tokenizer()) {
  const SentenceOptions said = sentence_options(model.directory(), !options.pooling);
  pooling_ = options.pooling.value_or(said.pooling);
  normalises_ = said.normalises;
  const std::int64_t most = rank_->options().longest;
  require<ConfigError>(options.max_length <= most, "--max-length {}: the model reads at most {} tokens",
                       options.max_length, most);
  longest_ = options.max_length > 0 ? options.max_length
                                    : std::min(most, said.max_length > 0 ? said.max_length : most);
}

void TextEmbedder::add(std::string_view text) {
  std::vector<token::TokenId> ids = tokenizer_.encode(text, {.plain = false, .add_special = true});
  if (static_cast<std::int64_t>(ids.size()) > longest_) {
    ids.resize(static_cast<std::size_t>(longest_));
    if (const auto end = tokenizer_.sep_id()) ids.back() = *end;
    ++shortened_;
  }
  require<DataError>(!ids.empty(), "an empty text: the tokenizer adds nothing to it");
  if (static_cast<std::int64_t>(tokens_.size() + ids.size()) > rank_->options().pass_tokens) flush();
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  lengths_.push_back(static_cast<std::int64_t>(ids.size()));
}

void TextEmbedder::flush() {
  if (lengths_.empty()) return;
  const std::span<const float> states = rank_->states(tokens_, lengths_);
  const auto hidden = static_cast<std::size_t>(rank_->options().model.config.hidden_size);
  std::size_t token = 0;
  for (const std::int64_t length : lengths_) {
    const auto used = static_cast<std::size_t>(pooling_ == Pooling::kFirstToken ? 1 : length);
    std::vector<double> vector(hidden, 0.0);
    for (std::size_t t = 0; t < used; ++t)
      for (std::size_t i = 0; i < hidden; ++i)
        vector[i] += static_cast<double>(states[(token + t) * hidden + i]) / static_cast<double>(used);
    token += static_cast<std::size_t>(length);
    emit_(vector);
  }
  tokens_.clear();
  lengths_.clear();
}

}  // namespace stoa::infer
