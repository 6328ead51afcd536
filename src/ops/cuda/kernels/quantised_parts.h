// Where the rows of a block of threads are, and numbers of tokens; how finished sums are stored.
#pragma once

#include "ops/cuda/kernels/quantised_linear.h"
#include "ops/cuda/kernels/weight_codes.h"

namespace stoa::ops::cuda {

// Rows [16 first, …) of the part that has number `which` of the tiles of `groups` groups that parts have.
struct PartPlace {
  int part = 0;
  std::int64_t first = 0;  // group

  STOA_DEVICE PartPlace(const QuantisedProductArgs& a, std::int64_t which, int groups) {
    const std::int64_t rows = static_cast<std::int64_t>(groups) * kGroupRows;
    for (;; ++part) {
      const std::int64_t tiles = (a.part[part].rows + rows - 1) / rows;
      if (which < tiles) break;
      which -= tiles;
    }
    first = which * groups;
  }
};
inline std::int64_t tiles_of(const QuantisedProductArgs& a, int groups) {
  std::int64_t tiles = 0;
  for (int p = 0; p < a.parts; ++p) tiles += ceil_div(a.part[p].rows, std::int64_t{groups} * kGroupRows);
  return tiles;
}

// Where number `at` of `count` of a token is, among those of eight tokens at a time.
STOA_DEVICE std::int64_t of_eight(std::int64_t token, std::int64_t at, std::int64_t count) {
  return (token / 8 * count + at) * 8 + token % 8;
}
STOA_DEVICE std::int64_t blocks_of(const TokenCodes& x) {
  return (x.units + kScaledUnits - 1) / kScaledUnits;
}

STOA_DEVICE void store_element(void* to, Element type, std::int64_t at, float value) {
  if (type == Element::kF32)
    static_cast<float*>(to)[at] = value;
  else if (type == Element::kBF16)
    narrow(value, static_cast<bf16*>(to)[at]);
  else
    narrow(value, static_cast<f16*>(to)[at]);
}
// Row `row` of y and bias.
STOA_DEVICE void store_sum(const QuantisedProductArgs& a, std::int64_t token, std::int64_t row, float sum) {
  store_element(a.y, a.y_type, token * a.y_stride + row, a.bias ? sum + a.bias[row] : sum);
}

}  // namespace stoa::ops::cuda
