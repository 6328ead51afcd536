#include "train/tokenizer_choice.h"

#include <unistd.h>

namespace stoa::train {

std::optional<token::Tokenizer> load_tokenizer(const data::TokenizerConfig& config) {
  if (config.library == data::TokenizerLibrary::kMegatron) {
    require<ConfigError>(
        config.vocab_file.has_value(),
        "model.tokenizer.library is megatron: give model.tokenizer.vocab_file (merges lie beside it)");
    return token::Tokenizer::load(*config.vocab_file);
  }
  if (!config.type) return std::nullopt;
  return token::Tokenizer::load(*config.type);
}

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer) {
  // The tokenizer writes itself into a directory; a checkpoint wants texts.
  const fs::path directory = fs::temp_directory_path() / fmt::format("stoa-tokenizer-{}", ::getpid());
  fs::create_directories(directory);
  tokenizer.save(directory);
  run::ModelTextFiles files;
  for (const auto& entry : fs::directory_iterator(directory))
    files.push_back({entry.path().filename().string(), read_text(entry.path())});
  fs::remove_all(directory);
  return files;
}

}  // namespace stoa::train
