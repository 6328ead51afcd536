// MODEL where it is an encoder (kind bert), loaded for use.
#pragma once

#include <memory>

#include "cli/model_argument.h"
#include "infer/encoder_rank.h"

namespace stoa::cli {

struct LoadedEncoder {
  std::unique_ptr<infer::Machine> machine;
  std::unique_ptr<infer::EncoderRank> rank;
  std::optional<token::Tokenizer> tokenizer;
  fs::path directory;  // with config.json

  // Of the token that hides others. ConfigError: the tokenizer has none.
  token::TokenId mask_id() const;
};

constexpr std::int64_t kMasksAtOnce = 64;  // logits of so many tokens are small, a pass is full

// What an encoder is loaded for beside embeddings.
struct EncoderUse {
  std::int64_t masks = 0;  // most tokens to be predicted at once
  bool answers = false;    // of the head of a labelled task
};
// ConfigError: not an encoder, or one without that head.
LoadedEncoder load_encoder(const ModelArguments& arguments, const EncoderUse& use);

}  // namespace stoa::cli
