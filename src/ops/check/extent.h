// Where the memory of a host tensor lies, gaps between strided rows included.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace stoa::ops {

inline std::uintptr_t begin_of(const TensorView& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data);
}

// Bytes from the first element to the end of the last one; 0 without elements.
inline std::size_t extent(const TensorView& tensor) {
  if (!tensor || tensor.elements() == 0) return 0;
  return static_cast<std::size_t>((tensor.rows() - 1) * tensor.stride0 + tensor.shape.inner()) *
         size_of(tensor.dtype);
}

}  // namespace stoa::ops
