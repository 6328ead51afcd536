#include "nn/bottleneck.h"

#include "nn/prompt_encoder.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace stoa::nn {

Param Bottleneck::add(ParamList& params, const std::string& end, const Shape& shape,
                      const ParamInit& init) const {
  ParamSpec spec = encoder_parameter(options_.name + end, shape, init, options_.place);
  // Each rank sees its rows of the stream.
  if (options_.place.splits_stream()) spec.grad_partial_over.push_back(parallel::Group::kTensor);
  return params.add(std::move(spec));
}

void Bottleneck::declare(ParamList& params) {
  const auto& o = options_;
  const ParamInit zero{InitKind::kZeros, 0};
  down_ = add(params, std::string(kDown) + ".weight", {o.width, o.hidden}, o.down);
  down_bias_ = add(params, std::string(kDown) + ".bias", {o.width}, zero);
  up_ = add(params, std::string(kUp) + ".weight", {o.hidden, o.width}, o.up);
  up_bias_ = add(params, std::string(kUp) + ".bias", {o.hidden}, zero);
}

TensorView Bottleneck::inner(Pass& pass, TensorView r) const {
  const TensorView out = pass.ops.scratch.allocate(r.dtype, {r.rows(), options_.width});
  ops::run(
      pass.ops,
      ops::LinearForward{
          .x = r, .w = pass.params.get(down_.value), .bias = pass.params.get(down_bias_.value), .y = out});
  return out;
}

void Bottleneck::forward(Pass& pass, TensorView r, TensorView y) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView inner = this->inner(pass, r), out = pass.ops.scratch.allocate(r.dtype, r.shape);
  ops::run(pass.ops,
           ops::ActivationForward{.kind = options_.activation, .gated = false, .x = inner, .y = inner});
  ops::run(
      pass.ops,
      ops::LinearForward{
          .x = inner, .w = pass.params.get(up_.value), .bias = pass.params.get(up_bias_.value), .y = out});
  ops::run(pass.ops, ops::Combine{.a = options_.scale, .b = 1, .x = out, .y = y});
}

void Bottleneck::backward(Pass& pass, bool weights, TensorView r, TensorView dy, TensorView dr) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView inner = this->inner(pass, r), dinner = scratch.allocate(r.dtype, inner.shape);
  TensorView dout = dy;
  if (options_.scale != 1) {
    dout = scratch.allocate(dy.dtype, dy.shape);
    ops::run(pass.ops, ops::Cast{.x = dy, .y = dout});
    ops::run(pass.ops, ops::Combine{.a = options_.scale, .b = 0, .x = dout, .y = dout});
  }
  if (weights) {
    Scratch::Frame weights_frame(scratch);
    const TensorView activated = scratch.allocate(r.dtype, inner.shape);
    ops::run(pass.ops,
             ops::ActivationForward{.kind = options_.activation, .gated = false, .x = inner, .y = activated});
    add_linear_gradient(pass, activated, dout, up_, up_bias_);
  }
  ops::run(pass.ops, ops::LinearBackwardInput{.dy = dout, .w = pass.params.get(up_.value), .dx = dinner});
  ops::run(pass.ops,
           ops::ActivationBackward{
               .kind = options_.activation, .gated = false, .x = inner, .dy = dinner, .dx = dinner});
  if (weights) add_linear_gradient(pass, r, dinner, down_, down_bias_);
  ops::run(pass.ops, ops::LinearBackwardInput{.dy = dinner, .w = pass.params.get(down_.value), .dx = dr});
}

}  // namespace stoa::nn
