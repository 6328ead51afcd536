// The layout of a sample of an encoder-decoder in a row of a batch.
#pragma once

#include "data/batch.h"

namespace stoa::data {

// The source fills the first `source_length` tokens of the row, then comes the decoder's input: `start` and
// all labels but the last; padding is `start` too. Labels and loss mask are set only for the decoder, where
// positions restart at 0. The attention boundaries separate text and padding of the source, and source and
// target. InternalError: source or labels do not fit.
void write_pair(std::span<const std::int32_t> source, std::span<const std::int32_t> labels,
                std::size_t source_length, std::int32_t start, BatchRow row);

}  // namespace stoa::data
