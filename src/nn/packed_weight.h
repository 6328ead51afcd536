// Frozen matrices that a rank holds in fewer bits (quant/packed_matrix.h), each as one tensor of bytes.
#pragma once

#include <functional>
#include <vector>

#include "nn/param.h"
#include "quant/packed_matrix.h"

namespace stoa::nn {

// The shape of a parameter that is_packed(). ConfigError: rows that this rank's columns cut within blocks.
quant::PackedShape packed_shape(const ParamSpec& spec);
// Elements of the tensor in memory: bytes of one that holds_bytes().
std::int64_t memory_elements(const ParamSpec& spec);

// Fills the memory of a packed parameter. `numbers(piece)`: of the whole canonical matrix, so that what they
// become does not depend on the layout.
void pack_weight(const ParamSpec& spec, const std::function<std::vector<float>(std::size_t piece)>& numbers,
                 std::byte* memory);
// Its numbers [rows, columns] as the rank holds them.
std::vector<float> unpack_weight(const ParamSpec& spec, const std::byte* memory);

}  // namespace stoa::nn
