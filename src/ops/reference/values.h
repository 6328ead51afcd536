// Tensors as plain fp64 vectors: what the reference computes with.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"

namespace stoa::ops {

using Values = std::vector<double>;

// All elements in row-major order, rows packed; empty where the tensor is none.
Values load(const TensorView& tensor);
std::vector<std::int64_t> load_integers(const TensorView& tensor);

// Writes row-major `values`, each rounded once to the type of the tensor (nearest, ties to even). Nothing
// where it is none.
void store(const Values& values, const TensorView& tensor);

// `x` rounded to `type`, as store() does.
double rounded(double x, DType type);

}  // namespace stoa::ops
