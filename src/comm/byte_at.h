#pragma once

#include <cstddef>

#include "tensor/tensor_view.h"

namespace stoa::comm {

inline std::byte* byte_at(const TensorView& view, std::int64_t element) {
  return static_cast<std::byte*>(view.byte_offset(element));
}

}  // namespace stoa::comm
