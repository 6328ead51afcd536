// Comparison of tensors with tolerances that follow from types and norms, not from what happened to pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/tensor_view.h"

namespace stoa::ops {

// An element may differ by
//   2 u(storage) |expected|                    both sides round to the storage type, perhaps to neighbours
// + sum_ulps * u(sum) * (|expected| + rms)     arithmetic in the accumulation type; rms of the expected
// tensor
// + inner_ulps * u(inner) * (|expected| + rms)  values rounded to `inner` on the way (probabilities of
// attention in bf16)
// + 8 u(sum) * cancelled                      where sums cancel, possibly to nothing: the size of their terms
// + the smallest subnormal of the storage type.
// u is the unit roundoff: 2^-53, 2^-24, 2^-11 (fp16), 2^-8 (bf16). NaN equals NaN; an infinity equals only
// itself.
struct Tolerance {
  double sum_ulps = 64;
  DType inner = DType::kF64;  // type of intermediate values
  double inner_ulps = 4;
  double cancelled = 0;
};

double unit_roundoff(DType type);

struct Mismatch {
  std::int64_t index = 0;  // of the worst element, row-major
  double got = 0, expected = 0, allowed = 0;
  double rms = 0;          // of the expected tensor
  std::int64_t count = 0;  // elements beyond their tolerance
  std::string text() const;
};

// The element that exceeds its tolerance by the largest factor; none when all are within. Host tensors of one
// shape and type.
std::optional<Mismatch> worst_mismatch(const TensorView& got, const TensorView& expected,
                                       const Tolerance& tolerance = {});

}  // namespace stoa::ops
