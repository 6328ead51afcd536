// Operations that compute the gradients of several parameters at once, some of which are frozen.
#pragma once

#include "nn/pass.h"
#include "ops/elementwise.h"

namespace stoa::nn {

// Where such an operation writes the gradient of `parameter`. That of a frozen one goes to scratch memory of
// the current frame, which is not read; `accumulate` is then as told.
inline GradTarget target_or_discarded(Pass& pass, const Param& parameter, bool accumulate) {
  if (parameter.trained()) return pass.grads->target(parameter.grad);
  const TensorView value = pass.params.get(parameter.value),
                   out = pass.ops.scratch.allocate(accumulation_type(value.dtype), value.shape);
  if (accumulate) ops::run(pass.ops, ops::FillZero{.y = out});
  return {out, accumulate};
}

inline void notify_trained(Pass& pass, const Param& parameter) {
  if (parameter.trained()) pass.grads->notify(parameter.grad);
}

}  // namespace stoa::nn
