#include "nn/mlp.h"

namespace stoa::nn {
namespace {

Linear input_linear(const MlpOptions& o) {
  const LinearPiece up{o.name + ".up", o.ffn};
  if (!o.gated) return Linear({up.name, o.hidden, {up}, o.bias, o.deviation});
  return Linear({o.name + ".gate_up", o.hidden, {{o.name + ".gate", o.ffn}, up}, o.bias, o.deviation});
}

}  // namespace

Mlp::Mlp(const MlpOptions& options)
    : options_(options),
      up_(input_linear(options)),
      down_({options.name + ".down",
             options.ffn,
             {{options.name + ".down", options.hidden}},
             options.bias,
             options.output_deviation}) {}

void Mlp::declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
                  int input) {
  up_.declare(params);
  down_.declare(params);
  input_ = input;
  const TensorSpec raw{options_.name + ".raw", precision.compute, {tokens, up_.outputs()}};
  raw_ =
      table.declare({.tensor = raw, .producer = Producer::kLinear, .make = [this](Pass& pass, Saved& saved) {
                       const TensorView x = saved.get(pass, input_);
                       up_.forward(pass, x, saved.put(pass, raw_));
                     }});
  activated_ =
      table.declare({.tensor = {options_.name + ".activated", precision.compute, {tokens, options_.ffn}},
                     .producer = Producer::kActivation,
                     .make =
                         [this](Pass& pass, Saved& saved) {
                           const TensorView x = saved.get(pass, raw_);
                           ops::run(pass.ops, ops::ActivationForward{.kind = options_.activation,
                                                                     .gated = options_.gated,
                                                                     .x = x,
                                                                     .y = saved.put(pass, activated_)});
                         },
                     .weight_input = true});
  output_gradient_ =
      table.declare_stash({options_.name + ".output gradient", precision.compute, {tokens, options_.hidden}});
  raw_gradient_ = table.declare_stash({options_.name + ".raw gradient", precision.compute, raw.shape});
}

void Mlp::forward(Pass& pass, Saved& saved, TensorView y) const {
  down_.forward(pass, saved.get(pass, activated_), y);
}

void Mlp::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const TensorView activated = saved.get(pass, activated_);
  const TensorView raw = saved.get(pass, raw_);
  const TensorView input = saved.get(pass, input_);
  if (which == Which::kBoth) down_.backward_weight(pass, activated, dy);
  const TensorView draw = saved.put_stash(pass, which, raw_gradient_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dactivated = options_.gated ? pass.ops.scratch.allocate(activated.dtype, activated.shape)
                                                 : draw;  // in place without gate
    down_.backward_input(pass, dy, dactivated);
    ops::run(
        pass.ops,
        ops::ActivationBackward{
            .kind = options_.activation, .gated = options_.gated, .x = raw, .dy = dactivated, .dx = draw});
  }
  up_.backward_input(pass, draw, dx);
  if (which == Which::kBoth) up_.backward_weight(pass, input, draw);
}

void Mlp::backward_weight(Pass& pass, Saved& saved) const {
  down_.backward_weight(pass, saved.get(pass, activated_), saved.get_stash(output_gradient_));
  up_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(raw_gradient_));
}

}  // namespace stoa::nn
