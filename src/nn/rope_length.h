// How tables of the rotary embedding follow the length of a sequence (scalings dynamic and longrope). As
// transformers does: all of a sequence is read by the table of the length that it has reached.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/rope.h"

namespace stoa::nn {

// Sequences of up to so many positions are read by one table, longer ones by others. None: one table for all.
std::optional<std::int64_t> rope_length_limit(const RopeOptions& options);
// Whether all sequences beyond the limit are read by one and the same table (longrope). Otherwise it changes
// with every position (dynamic), and keys that were turned by an earlier one stay as they are.
bool one_rope_beyond_limit(const RopeOptions& options);
// [count, 2, size/2]: the rows of positions [first, first + count) of rope_table(options, ., sequence).
std::vector<double> rope_rows(const RopeOptions& options, std::int64_t first, std::int64_t count,
                              std::int64_t sequence);

}  // namespace stoa::nn
