// What the columns of all ranks say of a token together, where each rank gave the highest of its logits and
// the sum of exponentials relative to it (CrossEntropyPart, DivergencePart).
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

// `parts` [ranks, tokens, 4] hold the highest logit at `first` and the sum behind it.
template <class T>
PartTotals<T> part_totals(const T* parts, std::int64_t ranks, std::int64_t tokens, std::int64_t t,
                          int first) {
  const auto part = [&](std::int64_t rank) { return parts + (rank * tokens + t) * 4 + first; };
  PartTotals<T> out{part(0)[0]};
  for (std::int64_t r = 1; r < ranks; ++r) out.top = std::max(out.top, part(r)[0]);
  T sum = 0;
  for (std::int64_t r = 0; r < ranks; ++r) sum += part(r)[1] * std::exp(part(r)[0] - out.top);
  out.log_sum = std::log(sum);
  return out;
}

}  // namespace stoa::ops
