// `stoa generate` with an encoder: what stands at the masks of a prompt.
#pragma once

#include <cstdint>
#include <string>

#include "infer/open_model.h"

namespace stoa::cli {

// Prints the prompt with its masks filled by the likeliest tokens, or as JSON the `best` likeliest tokens of
// every mask with their probabilities. DataError: no mask in the prompt, or a prompt too long.
void fill_masks(infer::OpenModel& model, const std::string& prompt, bool json, std::int64_t best);

}  // namespace stoa::cli
