// A window to both sides as a bias of the scores by distance (ops/attention.h), which every backend has: zero
// within, and so far below beyond that a softmax makes it nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace stoa::nn {

// [2 window + 1, heads], distance (key position - query position) -window first: zeros but in the first and
// the last row, which stand for all distances beyond. `window`: keys to either side that a query sees, itself
// included.
std::vector<double> window_bias(std::int64_t heads, std::int64_t window);
inline std::int64_t window_bias_rows(std::int64_t window) { return 2 * window + 1; }

}  // namespace stoa::nn
