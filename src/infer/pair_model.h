// An encoder-decoder applied to pairs of texts: generates a target for a source, or scores one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "infer/encoder_decoder_rank.h"
#include "infer/open_model.h"

namespace stoa::infer {

// Ids of both sides, each with its end token.
struct TokenPair {
  std::vector<std::int32_t> source, target;
};

class PairModel {
 public:
  // Weights are read by load(). `model` must outlive this; `tokenizer`: whether to read its tokenizer.
  // ConfigError: not an encoder-decoder.
  explicit PairModel(OpenModel& model, bool tokenizer = true);

  const token::Tokenizer& tokenizer() const { return model_.tokenizer(); }
  std::int32_t start() const;  // first token of a target
  // Ids of a source or a target, with the end token. DataError: more tokens than the model has positions.
  std::vector<std::int32_t> ids_of(std::string_view text) const;
  void check_length(std::size_t tokens) const;
  // Parses line `number`, "source, tab, target", each side by `ids`. DataError: not exactly one tab, or an
  // empty side.
  TokenPair pair_of(std::string_view line, std::int64_t number,
                    const std::function<std::vector<std::int32_t>(std::string_view)>& ids) const;
  // The longest source or target in tokens, behind the virtual tokens of an adapter; `most` if the model's
  // positions are relative and set no limit.
  std::int64_t longest(std::int64_t most) const;

  struct Sizes {
    std::int64_t sources = 1, source_tokens = 1, targets = 1, target_tokens = 1;
  };
  EncoderDecoderRank& load(const Sizes& sizes);
  EncoderDecoderRank& load_for(std::span<const TokenPair> pairs);
  // -ln p of every token of the target, after load_for().
  std::vector<float> target_losses(const TokenPair& pair);

 private:
  OpenModel& model_;
  std::unique_ptr<EncoderDecoderRank> rank_;
};

}  // namespace stoa::infer
