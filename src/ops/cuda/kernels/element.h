// Element types and shapes as kernels see them: plain data, so that device code includes nothing of the
// host's.
#pragma once

#include <cstdint>

namespace stoa::ops::cuda {

enum class Element : std::uint8_t { kF64, kF32, kBF16, kF16 };

constexpr std::int64_t bytes_of(Element type) {
  return type == Element::kF64 ? 8 : type == Element::kF32 ? 4 : 2;
}

// Rows of `columns` elements. Row r = (r / inner, r % inner) begins at element (r / inner) * stride + (r %
// inner) * columns.
struct Rows {
  void* data = nullptr;  // null: absent
  Element type = Element::kF32;
  std::int64_t stride = 0;
  std::int64_t inner = 1;
  std::int64_t columns = 0;
};

// Elements are dropped where the Philox word of their global index, as a fraction of 2^32 in 24 bits, is
// below p.
struct DropoutArgs {
  float p = 0, scale = 1;
  std::uint32_t key_lo = 0, key_hi = 0;
  std::int64_t first = 0;  // global index of the first element of row 0
};

}  // namespace stoa::ops::cuda
