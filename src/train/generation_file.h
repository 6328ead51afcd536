// generation_config.json of the models that a run writes.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "model/huggingface/config_json.h"
#include "token/tokenizer.h"

namespace stoa::train {

// That of `start`, the model directory which the run resumes from, where it has one and its token ids are
// those of the run's tokenizer; otherwise what `special` says. `turn_ends`: further tokens that end a text.
std::string generation_file(const std::optional<std::filesystem::path>& start,
                            const token::Tokenizer* tokenizer,
                            const model::huggingface::SpecialTokens& special,
                            const std::set<token::TokenId>& turn_ends = {});

}  // namespace stoa::train
