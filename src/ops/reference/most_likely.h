// The most likely token of a row of logits (ops/most_likely.h).
#pragma once

#include <cstdint>
#include <span>

namespace stoa::ops {

std::int32_t most_likely_of(std::span<const float> row);

}  // namespace stoa::ops
