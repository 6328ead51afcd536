// MODEL where it is an encoder-decoder (kind t5), loaded for use.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "cli/model_argument.h"
#include "infer/encoder_decoder_rank.h"

namespace stoa::cli {

// Ids of both sides, each with the token that ends it.
struct TokenPair {
  std::vector<std::int32_t> source, target;
};

class PairModel {
 public:
  // Opens files and tokenizer; load() reads the weights. ConfigError: not an encoder-decoder.
  // `tokenizer`: is one needed?
  explicit PairModel(const ModelArguments& arguments, bool tokenizer = true);

  const token::Tokenizer& tokenizer() const { return *tokenizer_; }
  const model::Gpt& model() const { return files_.model(); }
  const fs::path& directory() const { return directory_; }  // with config.json
  const model::huggingface::SpecialTokens& special() const { return files_.description().special; }
  std::int32_t start() const;  // first token of a target
  // Ids of a source or a target, with the token that ends it. DataError: more than the model has positions.
  std::vector<std::int32_t> ids_of(std::string_view text) const;
  void check_length(std::size_t tokens) const;
  // Of a line "source, tab, target" of that number, each side by `ids`. DataError: not one tab, or nothing on
  // a side.
  TokenPair pair_of(std::string_view line, std::int64_t number,
                    const std::function<std::vector<std::int32_t>(std::string_view)>& ids) const;
  // Tokens that a source or a target may have; relative positions set no limit: `most`.
  std::int64_t longest(std::int64_t most) const;

  struct Sizes {
    std::int64_t sources = 1, source_tokens = 1, targets = 1, target_tokens = 1;
  };
  infer::EncoderDecoderRank& load(const Sizes& sizes);
  infer::EncoderDecoderRank& load_for(std::span<const TokenPair> pairs);
  // -ln p of every token of the target, after load_for().
  std::vector<float> target_losses(const TokenPair& pair);

 private:
  const ModelArguments arguments_;
  const fs::path directory_;
  infer::ModelFiles files_;
  std::optional<token::Tokenizer> tokenizer_;
  std::unique_ptr<infer::Machine> machine_;
  std::unique_ptr<infer::EncoderDecoderRank> rank_;
};

}  // namespace stoa::cli
