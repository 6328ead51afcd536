// Choice of the tokens that a masked language model is to predict, as Megatron makes it
// (megatron/core/datasets/masked_dataset.py): runs of up to max_ngram whole words, n with probability
// proportional to 1 / n.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/numpy_random.h"

namespace stoa::data {

// What masking needs of a tokenizer.
struct MaskingTokens {
  std::int32_t cls = -1, sep = -1, mask = -1, pad = 0;
  std::int64_t vocabulary = 0;          // ids that may take the place of a token
  std::vector<std::uint8_t> continues;  // by id: goes on with the word of the token before
};

struct MaskingOptions {
  double probability = 0.15;  // share of the tokens
  int max_ngram = 3;
  bool whole_words = true;
};

// Replaces tokens of `sequence` ([CLS] … [SEP] …) in place and marks them in `chosen`: of those that are to
// be predicted 80 % become [MASK], 10 % any token, 10 % stay. `target`: most tokens of the sample.
void mask_tokens(std::span<std::int32_t> sequence, std::span<float> chosen, std::int64_t target,
                 const MaskingTokens& tokens, const MaskingOptions& options, NumpyRandom& random);

}  // namespace stoa::data
