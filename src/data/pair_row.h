// How samples of an encoder-decoder lie in a row of a batch.
#pragma once

#include "data/batch.h"

namespace stoa::data {

// The row has the source in its first `source_length` tokens, then the input of the decoder: `start`, which
// pads both too, then the labels before. Labels and loss mask count for the latter; positions begin
// anew with it. The attention boundaries separate text and padding of the source, and source and target.
// Source and labels must fit.
void write_pair(std::span<const std::int32_t> source, std::span<const std::int32_t> labels,
                std::size_t source_length, std::int32_t start, BatchRow row);

}  // namespace stoa::data
