// An encoder-decoder as pairs of texts use it: a source goes in, a target comes out or is rated.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "infer/encoder_decoder_rank.h"
#include "infer/open_model.h"

namespace stoa::infer {

// Ids of both sides, each with the token that ends it.
struct TokenPair {
  std::vector<std::int32_t> source, target;
};

class PairModel {
 public:
  // The weights are read by load(). ConfigError: not an encoder-decoder. `model` outlives this. `tokenizer`:
  // is one needed? It is read here.
  explicit PairModel(OpenModel& model, bool tokenizer = true);

  const token::Tokenizer& tokenizer() const { return model_.tokenizer(); }
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
  EncoderDecoderRank& load(const Sizes& sizes);
  EncoderDecoderRank& load_for(std::span<const TokenPair> pairs);
  // -ln p of every token of the target, after load_for().
  std::vector<float> target_losses(const TokenPair& pair);

 private:
  OpenModel& model_;
  std::unique_ptr<EncoderDecoderRank> rank_;
};

}  // namespace stoa::infer
