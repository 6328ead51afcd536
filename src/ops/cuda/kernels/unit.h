// Elements that are copied as they are: the largest pieces that addresses, widths and strides allow.
#pragma once

#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

template <class Unit>
STOA_DEVICE void copy_unit(const Unit* from, Unit* to) {
  *to = *from;
}
STOA_DEVICE void copy_unit(const Bytes16* from, Bytes16* to) { store16(to, load16(from)); }

// Calls body(Unit{}) with the type of this many bytes: 2, 4, 8 or 16.
template <class Body>
void with_unit(std::int64_t bytes, Body&& body) {
  switch (bytes) {
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    case 8:
      return body(std::uint64_t{});
    default:
      return body(Bytes16{});
  }
}

}  // namespace stoa::ops::cuda
