// What an encoder-decoder reads and writes: a source and its target, as ids with their end tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "token/tokenizer.h"

namespace stoa::infer {

struct TokenPair {
  std::vector<std::int32_t> source, target;
};

// The ids of a source or a target, behind which the end token is put unless it is there. DataError: the
// tokenizer has none.
std::vector<std::int32_t> ids_with_end(const token::Tokenizer& tokenizer, std::string_view text);
// Line `number`, "source, tab, target", each side by `ids`. DataError: not exactly one tab, an empty side, or
// one that is longer than the model's positions.
TokenPair pair_of(std::string_view line, std::int64_t number, const model::ModelConfig& config,
                  const std::function<std::vector<std::int32_t>(std::string_view)>& ids);

}  // namespace stoa::infer
