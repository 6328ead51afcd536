// Attention with linear biases (Press et al. 2022, 2108.12409): a score falls with the distance of query and
// key, at a slope of its head.
#pragma once

#include <cstdint>
#include <vector>

namespace stoa::nn {

// 2^(-8 i / m), i = 1 ... m, for the largest power of two m within `heads`; beyond it every other slope of 2
// m heads.
std::vector<double> alibi_slopes(std::int64_t heads);
// [positions, heads]: bias of a key `positions` - 1 - row before its query: ops::AttentionForward's
// relative_bias with first_offset 1 - positions.
std::vector<double> alibi_table(std::int64_t heads, std::int64_t positions);

}  // namespace stoa::nn
