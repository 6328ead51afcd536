// The token of each row of logits that a greedy answer takes.
#pragma once

#include "ops/access.h"
#include "ops/backend.h"

namespace stoa::ops {

// The id of the largest logit of each row, of equal ones the lowest, and that logit: what the host's sampler
// finds, also where logits are not numbers (kMostLikelyBlock). Not every backend has it: see
// most_likely_of().
struct MostLikely {
  static constexpr const char* kName = "most likely";
  TensorView logits;  // fp32 [T, V]
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

// The operation of a backend that has it, or null.
inline OpInterface<MostLikely>* most_likely_of(Backend& backend) {
  return dynamic_cast<OpInterface<MostLikely>*>(&backend);
}

}  // namespace stoa::ops
