// The tokens that a masked language model is to predict: n-grams of whole words, most of them hidden.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/ngrams.h"

namespace stoa::data {

// What masking needs of a tokenizer.
struct MaskingTokens {
  std::int32_t cls = -1, sep = -1, mask = -1, pad = 0;
  std::int64_t vocabulary = 0;          // ids that may take the place of a token
  std::vector<std::uint8_t> continues;  // by id: continues the word of the token before
};

// Replaces tokens of `sequence` ([CLS] … [SEP] …) in place and marks them in `chosen`: of those that are to
// be predicted 80 % become [MASK], 10 % any token, 10 % stay. `target`: most tokens of the sample.
void mask_tokens(std::span<std::int32_t> sequence, std::span<float> chosen, std::int64_t target,
                 const MaskingTokens& tokens, const NgramOptions& options, NumpyRandom& random);

}  // namespace stoa::data
