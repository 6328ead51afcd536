// The tokenizer that a configuration names, and its files as a model directory carries them.
#pragma once

#include <optional>

#include "data/config.h"
#include "run/rank_checkpoint.h"
#include "token/tokenizer.h"

namespace stoa::train {

// None where the configuration names none.
std::optional<token::Tokenizer> load_tokenizer(const data::TokenizerConfig& config);

run::ModelTextFiles tokenizer_files(const token::Tokenizer& tokenizer);

}  // namespace stoa::train
