#pragma once

#include "nn/pass.h"
#include "ops/elementwise.h"

namespace stoa::nn {

// y[i] = x[index[i]], or x[i] without index: matrices whose rows may be strided.
inline void copy_rows(Pass& pass, const TensorView& x, const TensorView& y, const TensorView& index = {}) {
  ops::run(pass.ops, ops::CopyRows{.x = x, .index = index, .y = y});
}

}  // namespace stoa::nn
