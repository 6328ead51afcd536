// The tokenizer that a configuration names, and its files as a model directory carries them.
#pragma once

#include <optional>

#include "ckpt/grown_rows.h"
#include "run/rank_checkpoint.h"
#include "token/tokenizer.h"
#include "train/run_config.h"

namespace stoa::train {

// None where the configuration names none.
std::optional<token::Tokenizer> load_tokenizer(const data::TokenizerConfig& config);

// The tokenizer of a run: with the chat template that the configuration names, and the tokens that it adds.
struct RunTokenizer {
  std::optional<token::Tokenizer> tokenizer;
  ckpt::NewTokens added;
};
RunTokenizer load_run_tokenizer(const RunConfig& config);
// A low-rank adapter trains the rows of tokens that a chat template adds, unless it trains the embedding.
void train_added_rows(model::PeftConfig& peft, const ckpt::NewTokens& added);

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer);

}  // namespace stoa::train
