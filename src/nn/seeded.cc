#include "nn/seeded.h"

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/step_state.h"

namespace stoa::nn {

void seeded_weights(Pass& pass, TensorView mask, TensorView out) {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView seed = scratch.allocate(out.dtype, {1, 1}),
                   weights = scratch.allocate(out.dtype, out.shape);
  const auto slot = static_cast<std::int64_t>(ops::StepSlot::kLossSeed);
  ops::run(pass.ops, ops::Cast{.x = pass.state.slice(slot, 1).reshape({1, 1}), .y = seed});
  ops::run(pass.ops, ops::Cast{.x = mask.reshape(out.shape), .y = weights});
  ops::run(pass.ops, ops::LinearForward{.x = weights, .w = seed, .bias = {}, .y = out});
}

}  // namespace stoa::nn
