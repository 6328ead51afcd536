#include "train/tokenizer_choice.h"

#include "token/tokenizer.h"
#include "token/tokenizer_texts.h"

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

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer) {
  run::ModelTextFiles files;
  for (auto& file : token::tokenizer_texts(tokenizer))
    files.push_back({std::move(file.name), std::move(file.text)});
  return files;
}

}  // namespace stoa::train
