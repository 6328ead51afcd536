// Predicts the masked tokens of a text with an encoder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "infer/encoder_rank.h"

namespace stoa::infer {

struct FilledText {
  struct Token {
    token::TokenId id;
    double probability;
  };
  struct Mask {
    std::int32_t position;      // token of the text
    std::vector<Token> tokens;  // the most likely, best first
  };
  std::string text;  // every mask replaced by its most likely token
  std::vector<Mask> masks;
};

// `best`: this many tokens for every mask. Loads the model. ConfigError: not an encoder that predicts tokens.
// DataError: no mask in the text, too many of them, or a text that is too long.
FilledText fill_masks(OpenModel& model, std::string_view text, std::int64_t best);

}  // namespace stoa::infer
