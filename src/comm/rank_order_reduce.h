// Reduction whose result depends on nothing but the inputs and their order.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace stoa::comm {

// outputs[*][i] = reduction over r = 0, 1, … of inputs[r][i], for i < count: in the accumulation type (fp64
// for fp64, fp32 for other floats, 64-bit wrapping for integers), rounded once. A NaN makes the maximum NaN.
// Outputs may be inputs.
void reduce_in_rank_order(DType type, ReduceOp op, std::span<const void* const> inputs,
                          std::span<void* const> outputs, std::int64_t count);

}  // namespace stoa::comm
