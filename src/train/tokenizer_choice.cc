#include "train/tokenizer_choice.h"

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

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer) {
  run::ModelTextFiles files;
  for (auto& file : token::tokenizer_texts(tokenizer))
    files.push_back({std::move(file.name), std::move(file.text)});
  return files;
}

}  // namespace stoa::train
