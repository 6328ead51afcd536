// Which rows of a batch belong together, for operations that go along a text.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// Text i has rows [begin[i], begin[i + 1]), in the order of its tokens. Rows before the first and after the
// last text belong to none: results and gradients are zeros there.
struct Sequences {
  TensorView begin;  // int32 [n + 1]; it may be longer
  std::int64_t count = 0;
  std::int64_t longest = 0;  // an upper bound, known to the host

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("begin", a.begin, Access::kRead);
  }
};

}  // namespace stoa::ops
