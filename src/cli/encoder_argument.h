// MODEL where it is an encoder (kind bert), loaded for use.
#pragma once

#include <memory>

#include "cli/model_argument.h"
#include "run/encoder_rank.h"

namespace stoa::cli {

struct LoadedEncoder {
  std::unique_ptr<run::Machine> machine;
  std::unique_ptr<run::EncoderRank> rank;
  std::optional<token::Tokenizer> tokenizer;
  fs::path directory;  // with config.json
};

// `masks`: most tokens to be predicted in one text; 0: embeddings alone. ConfigError: not an encoder.
LoadedEncoder load_encoder(const ModelArguments& arguments, std::int64_t masks);

}  // namespace stoa::cli
