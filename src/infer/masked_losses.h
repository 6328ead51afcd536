// Pseudo-log-likelihood of texts under an encoder (Salazar et al. 2020, Masked Language Model Scoring,
// section 2).
#pragma once

#include <span>

#include "infer/encoder_rank.h"

namespace stoa::infer {

// losses[i] = -ln p(tokens[rows[i]] | the text with that token alone hidden by `mask`); natural logarithm.
// The text is read once for every row, as many copies in one pass as the rank has room for. `tokens`: at most
// the rank's longest text; the rank was made for masks.
void masked_losses(EncoderRank& rank, std::int32_t mask, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> rows, std::span<float> losses);

}  // namespace stoa::infer
