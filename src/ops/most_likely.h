// The token of each row of logits that a greedy answer takes.
#pragma once

#include "ops/access.h"
#include "tensor/tensor_view.h"

namespace stoa::ops {

// The id of the largest logit of each row, of equal ones the lowest, and that logit: what the host's sampler
// finds, also where logits are not numbers (kMostLikelyBlock).
struct MostLikely {
  static constexpr const char* kName = "most likely";
  TensorView logits;  // fp32 [T, V]; rows may be strided
  TensorView found;   // int32 [T, 2]: the id, and the bits of its logit

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("found", a.found, Access::kWrite);
  }
};

// A row is searched in blocks of so many logits. Those that are NaN do not count, and neither does a block
// that begins with one; but one that stands before the largest logit in its block is what is found.
inline constexpr int kMostLikelyBlock = 512;
}  // namespace stoa::ops
