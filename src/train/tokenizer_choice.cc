#include "train/tokenizer_choice.h"

#include <algorithm>

#include "token/tokenizer.h"
#include "token/tokenizer_texts.h"
#include "tune/named_templates.h"

namespace stoa::train {

std::optional<token::Tokenizer> load_tokenizer(const data::TokenizerConfig& config) {
  if (config.library == data::TokenizerLibrary::kMegatron) {
    require<ConfigError>(
        config.vocab_file.has_value(),
        "model.tokenizer.library is megatron: give model.tokenizer.vocab_file and merge_file");
    return config.merge_file ? token::load_vocab_merges(*config.vocab_file, *config.merge_file)
                             : token::Tokenizer::load(*config.vocab_file);
  }
  if (config.library == data::TokenizerLibrary::kSentencepiece)
    return token::Tokenizer::load_sentencepiece(*config.model, config.num_sentinel_tokens);
  if (!config.type) return std::nullopt;
  return token::Tokenizer::load(*config.type);
}

RunTokenizer load_run_tokenizer(const RunConfig& config) {
  RunTokenizer out{load_tokenizer(config.tokenizer), {}};
  if (!out.tokenizer || !config.chats.chat || !config.chats.chat_template) return out;
  const std::int64_t before = out.tokenizer->vocab_size();
  auto [templated, added] = tune::with_template(*out.tokenizer, *config.chats.chat_template);
  out.tokenizer = std::move(templated);
  if (!added.empty()) out.added = {before, static_cast<std::int64_t>(added.size())};
  return out;
}

void train_added_rows(model::PeftConfig& peft, const ckpt::NewTokens& added) {
  if (!peft.is_lora()) return;
  const auto is_embedding = [](const std::string& module) {
    return module.find("embed") != std::string::npos || module.find("wte") != std::string::npos;
  };
  if (std::any_of(peft.modules_to_save.begin(), peft.modules_to_save.end(), is_embedding)) return;
  auto& rows = peft.trainable_token_indices;
  for (std::int64_t id = added.first; id < added.end(); ++id)
    if (std::find(rows.begin(), rows.end(), id) == rows.end()) rows.push_back(id);
}

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer) {
  run::ModelTextFiles files;
  for (auto& file : token::tokenizer_texts(tokenizer))
    files.push_back({std::move(file.name), std::move(file.text)});
  return files;
}

}  // namespace stoa::train
