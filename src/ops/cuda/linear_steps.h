// What linear layers do in addition to their products, in compute precision and in 8 bits alike.
#pragma once

#include <cstddef>

#include "ops/cuda/workspace_parts.h"
#include "tensor/tensor_view.h"

namespace stoa::ops::cuda {

// The library adds a bias of type `wanted`: bytes of the cast copy, 0 where there is none.
std::size_t cast_bias_bytes(const TensorView& bias, DType wanted);
// Address of the bias in that type; the copy is a part of the workspace.
const void* cast_bias(const TensorView& bias, DType wanted, WorkspaceParts& parts, void* stream);

// out = or += the sums over rows of x, [rows, columns] -> fp32 [columns]; none without `out`.
std::size_t column_sum_bytes(const TensorView& x, const TensorView& out);
void add_column_sums(const TensorView& x, const TensorView& out, bool accumulate, WorkspaceParts& parts,
                     void* stream);

}  // namespace stoa::ops::cuda
