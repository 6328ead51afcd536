// Element-by-element operations on contiguous tensors.
#pragma once

#include <cstddef>

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

enum class MapKind : std::uint8_t {
  kCast,      // y = x
  kAdd,       // y += x
  kResidual,  // y = x + dropout(other)
  kDropout,   // y = dropout(x)
  kCombine    // y = a x + b y
};

struct MapArgs {
  MapKind kind = MapKind::kCast;
  Element x_type = Element::kF32, y_type = Element::kF32, other_type = Element::kF32;
  const void* x = nullptr;
  const void* other = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
  DropoutArgs dropout;
  float a = 1, b = 1;  // of kCombine
  bool wide = false;   // addresses are multiples of 16, dropout.first of 8
};
void launch_map(const MapArgs& args, void* stream);

// fp64 on either side: x to y, element by element.
void launch_cast_exact(const MapArgs& args, void* stream);

void launch_fill_zero(void* data, std::size_t bytes, void* stream);
// Rows of a strided tensor.
void launch_fill_rows(const Rows& rows, std::int64_t count, void* stream);

}  // namespace stoa::ops::cuda
