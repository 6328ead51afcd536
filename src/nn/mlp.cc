#include "nn/mlp.h"

namespace stoa::nn {
namespace {

parallel::Part columns_of(const MlpOptions& o) {
  return parallel::part_of(o.ffn, o.place.size, o.place.rank);
}

Linear input_linear(const MlpOptions& o) {
  LinearOptions out{.name = o.name + (o.gated ? ".gate_up" : ".up"),
                    .inputs = o.hidden,
                    .pieces = {},
                    .bias = o.bias,
                    .deviation = o.deviation,
                    .split = LinearSplit::kOutputs,
                    .place = o.place,
                    .columns = {}};
  if (o.gated) out.pieces.push_back({o.name + ".gate", o.ffn, columns_of(o)});
  out.pieces.push_back({o.name + ".up", o.ffn, columns_of(o)});
  return Linear(std::move(out));
}

}  // namespace

Mlp::Mlp(const MlpOptions& options)
    : options_(options),
      up_(input_linear(options)),
      down_({.name = options.name + ".down",
             .inputs = options.ffn,
             .pieces = {{options.name + ".down", options.hidden, {}}},
             .bias = options.bias,
             .deviation = options.output_deviation,
             .split = LinearSplit::kInputs,
             .place = options.place,
             .columns = columns_of(options)}) {}

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
  activated_ = table.declare(
      {.tensor = {options_.name + ".activated", precision.compute, {tokens, down_.inputs()}},
       .producer = Producer::kActivation,
       .make =
           [this](Pass& pass, Saved& saved) {
             const TensorView x = saved.get(pass, raw_), y = saved.put(pass, activated_);
             ops::run(pass.ops, ops::ActivationForward{.kind = options_.activation,
                                                       .gated = options_.gated,
                                                       .x = x,
                                                       .y = y,
                                                       .clamp = options_.clamp});
             pass.show(options_.name, ".activated", y, {columns_of(options_).begin, options_.ffn});
           },
       .weight_input = true});
  output_gradient_ = table.declare_stash({options_.name + ".output gradient",
                                          precision.compute,
                                          {options_.place.stream_rows(tokens), options_.hidden}});
  raw_gradient_ = table.declare_stash({options_.name + ".raw gradient", precision.compute, raw.shape});
}

void Mlp::forward(Pass& pass, Saved& saved, TensorView y) const {
  down_.forward(pass, saved.get(pass, activated_), y);
}

void Mlp::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const TensorView activated = saved.get(pass, activated_);
  const TensorView raw = saved.get(pass, raw_);
  const TensorView input = saved.get(pass, input_);
  const TensorView draw = saved.put_stash(pass, which, raw_gradient_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dactivated = options_.gated ? pass.ops.scratch.allocate(activated.dtype, activated.shape)
                                                 : draw;  // in place without gate
    down_.backward(pass, which, activated, dy, dactivated);
    pass.show_gradient(options_.name, ".activated", dactivated, {columns_of(options_).begin, options_.ffn});
    ops::run(pass.ops, ops::ActivationBackward{.kind = options_.activation,
                                               .gated = options_.gated,
                                               .x = raw,
                                               .dy = dactivated,
                                               .dx = draw,
                                               .clamp = options_.clamp});
  }
  up_.backward(pass, which, input, draw, dx);
}

void Mlp::backward_weight(Pass& pass, Saved& saved) const {
  down_.backward_weight(pass, saved.get(pass, activated_), saved.get_stash(output_gradient_));
  up_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(raw_gradient_));
}

}  // namespace stoa::nn
