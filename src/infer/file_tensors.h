// Tensors as files hold them, out of canonical ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/huggingface/tensor_map.h"

namespace stoa::infer {

// Host view of a canonical tensor, any floating-point type, alive until the next tensor of a file is made.
using CanonicalSource = std::function<TensorView(const std::string& canonical)>;

// A tensor of a family's files, dense, as `type`.
std::vector<std::byte> gather_tensor(const model::huggingface::Tensor& tensor, DType type,
                                     const CanonicalSource& source);

}  // namespace stoa::infer
