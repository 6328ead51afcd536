#include "nn/scaled_sublayer.h"

#include "ops/elementwise.h"

namespace stoa::nn {

void ScaledSublayer::scale(Pass& pass, TensorView rows) const {
  ops::run(pass.ops, ops::Combine{.a = multiplier_, .b = 0, .x = rows, .y = rows});
}

void ScaledSublayer::forward(Pass& pass, Saved& saved, TensorView y) const {
  layer_->forward(pass, saved, y);
  scale(pass, y);
}

void ScaledSublayer::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  TensorView gradient = dy;     // the stash entry, which the weights' gradients read
  if (which == Which::kBoth) {  // perhaps the gradient of the stream, which others read
    gradient = pass.ops.scratch.allocate(dy.dtype, dy.shape);
    ops::run(pass.ops, ops::Cast{.x = dy, .y = gradient});
  }
  scale(pass, gradient);
  layer_->backward(pass, saved, which, gradient, dx);
}

std::unique_ptr<Sublayer> scaled(std::unique_ptr<Sublayer> layer, double multiplier) {
  if (multiplier == 1) return layer;
  return std::make_unique<ScaledSublayer>(std::move(layer), multiplier);
}

}  // namespace stoa::nn
