// What the columns of all ranks say of a token together, where each rank gave the highest of its logits and
// the sum of exponentials relative to it (CrossEntropyPart, DivergencePart, KeptPart).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace stoa::ops {

// The logarithm of the sum of exponentials is top + log_sum.
template <class T>
struct PartTotals {
  T top = 0, log_sum = 0;
  T lse() const { return top + log_sum; }
};

// `parts` [ranks, tokens, width] hold the highest logit at `first` and the sum behind it. Summed in Sum.
template <class T, class Sum = T>
PartTotals<Sum> part_totals(const T* parts, std::int64_t ranks, std::int64_t tokens, std::int64_t t,
                            std::int64_t first, std::int64_t width = 4) {
  const auto part = [&](std::int64_t rank, int i) {
    return static_cast<Sum>(parts[(rank * tokens + t) * width + first + i]);
  };
  PartTotals<Sum> out{part(0, 0)};
  for (std::int64_t r = 1; r < ranks; ++r) out.top = std::max(out.top, part(r, 0));
  Sum sum = 0;
  for (std::int64_t r = 0; r < ranks; ++r) sum += part(r, 1) * std::exp(part(r, 0) - out.top);
  out.log_sum = std::log(sum);
  return out;
}

}  // namespace stoa::ops
