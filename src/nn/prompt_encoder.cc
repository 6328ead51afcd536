#include "nn/prompt_encoder.h"

#include <fmt/format.h>

#include <cmath>

#include "nn/tensor_columns.h"
#include "ops/linear.h"

namespace stoa::nn {

ParamSpec encoder_parameter(std::string name, const Shape& shape, ParamInit init,
                            const parallel::TensorPlace& place) {
  ParamSpec spec;
  spec.name = name;
  spec.shard = ShardSpec::whole(std::move(name), shape);
  spec.shard.pieces[0].shared = place.split();
  spec.shard.pieces[0].first_copy = place.rank == 0;
  spec.adapter = true;
  spec.init = init;
  spec.decay = shape.rank() >= 2;
  return spec;
}

void add_linear_gradient(Pass& pass, TensorView x, TensorView dy, const Param& w, const Param& bias) {
  if (!w.trained()) return;
  const GradTarget dw = pass.grads->target(w.grad), dbias = pass.grads->target(bias.grad);
  require<InternalError>(dw.accumulate == dbias.accumulate, "gradients of a linear layer are out of step");
  ops::run(pass.ops,
           ops::LinearBackwardWeight{
               .x = x, .dy = dy, .dw = dw.tensor, .dbias = dbias.tensor, .accumulate = dw.accumulate});
  pass.grads->notify(w.grad);
  pass.grads->notify(bias.grad);
}

PromptEncoder::PromptEncoder(const PromptOptions& options, std::int64_t hidden,
                             const parallel::TensorPlace& place)
    : options_(options), hidden_(hidden), place_(place) {
  const std::string name = "prompt_encoder.";
  const std::int64_t width = options.width;
  const auto dense = [&](int number, std::int64_t inputs, std::int64_t outputs) {
    dense_.push_back({fmt::format("{}mlp_head.{}", name, number), inputs, outputs, {}, {}});
  };
  switch (options.encoder) {
    case PromptEncoderKind::kNone:
      break;
    case PromptEncoderKind::kMlp:
      dense(0, options.inputs, width), dense(2, width, width), dense(4, width, hidden);
      break;
    case PromptEncoderKind::kTensorMlp:
      dense(0, options.inputs, width), dense(2, width, hidden);
      break;
    case PromptEncoderKind::kLstm:
      for (std::int64_t l = 0; l < options.layers; ++l)
        for (const char* direction : {"", "_reverse"})
          lstms_.emplace_back(name + "lstm_head", fmt::format("l{}{}", l, direction),
                              l == 0 ? options.inputs : 2 * width, width);
      dense(0, 2 * width, 2 * width), dense(2, 2 * width, hidden);
      break;
  }
}

void PromptEncoder::declare(ParamList& params) {
  if (!encodes()) {
    table_ = params.add(encoder_parameter(kTable, {options_.tokens, hidden_},
                                          {InitKind::kNormal, options_.deviation}, place_));
    return;
  }
  table_ = params.add(encoder_parameter("prompt_encoder.embedding.weight", {options_.tokens, options_.inputs},
                                        {InitKind::kNormal, 1}, place_));
  for (Lstm& lstm : lstms_) lstm.declare(params, place_);
  const bool nemo = options_.encoder == PromptEncoderKind::kTensorMlp;
  for (Dense& layer : dense_) {
    // PyTorch's initial values of a linear layer, or NeMo's.
    const ParamInit uniform{InitKind::kUniform, 1 / std::sqrt(static_cast<double>(layer.inputs))};
    layer.w = params.add(encoder_parameter(layer.name + ".weight", {layer.outputs, layer.inputs},
                                           nemo ? ParamInit{InitKind::kNormal, options_.deviation} : uniform,
                                           place_));
    layer.bias = params.add(encoder_parameter(layer.name + ".bias", {layer.outputs},
                                              nemo ? ParamInit{InitKind::kZeros, 0} : uniform, place_));
  }
}

PromptEncoder::Trace PromptEncoder::run(Pass& pass) const {
  Scratch& scratch = pass.ops.scratch;
  Trace trace;
  TensorView x = pass.params.get(table_.value);
  for (std::size_t l = 0; l < lstms_.size(); l += 2) {
    const std::int64_t width = lstms_[l].width();
    const TensorView both = scratch.allocate(x.dtype, {x.rows(), 2 * width});
    for (std::size_t d = 0; d < 2; ++d) {
      trace.lstms.push_back(lstms_[l + d].forward(pass, x));
      copy_rows(pass, trace.lstms.back().outer, both.columns(static_cast<std::int64_t>(d) * width, width));
    }
    x = both;
  }
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (i > 0) {
      const TensorView y = scratch.allocate(x.dtype, x.shape);
      ops::run(pass.ops, ops::ActivationForward{.kind = between(), .x = x, .y = y});
      x = y;
    }
    trace.inputs.push_back(x);
    x = scratch.allocate(x.dtype, {x.rows(), dense_[i].outputs});
    ops::run(pass.ops, ops::LinearForward{.x = trace.inputs.back(),
                                          .w = pass.params.get(dense_[i].w.value),
                                          .bias = pass.params.get(dense_[i].bias.value),
                                          .y = x});
    trace.outputs.push_back(x);
  }
  return trace;
}

TensorView PromptEncoder::embeddings(Pass& pass) const {
  return encodes() ? run(pass).outputs.back() : pass.params.get(table_.value);
}

TensorView PromptEncoder::gradient_target(Pass& pass) const {
  if (encodes()) {
    const DType type = accumulation_type(pass.params.get(table_.value).dtype);
    const TensorView out = pass.ops.scratch.allocate(type, {options_.tokens, hidden_});
    ops::run(pass.ops, ops::FillZero{out});
    return out;
  }
  const GradTarget target = pass.grads->target(table_.grad);
  if (!target.accumulate) ops::run(pass.ops, ops::FillZero{target.tensor});
  return target.tensor;
}

void PromptEncoder::finish(Pass& pass, TensorView dembeddings) const {
  if (!encodes()) return pass.grads->notify(table_.grad);
  Scratch& scratch = pass.ops.scratch;
  const Trace trace = run(pass);
  const DType type = trace.outputs.back().dtype;
  TensorView dy = scratch.allocate(type, dembeddings.shape);
  ops::run(pass.ops, ops::Cast{.x = dembeddings, .y = dy});
  for (std::size_t i = dense_.size(); i-- > 0;) {
    const TensorView dx = scratch.allocate(type, trace.inputs[i].shape);
    ops::run(pass.ops, ops::LinearBackwardInput{.dy = dy, .w = pass.params.get(dense_[i].w.value), .dx = dx});
    add_linear_gradient(pass, trace.inputs[i], dy, dense_[i].w, dense_[i].bias);
    if (i > 0)
      ops::run(pass.ops,
               ops::ActivationBackward{.kind = between(), .x = trace.outputs[i - 1], .dy = dx, .dx = dx});
    dy = dx;
  }
  for (std::size_t l = lstms_.size(); l > 0; l -= 2) {
    const TensorView dx = scratch.allocate(type, trace.lstms[l - 1].x.shape);
    ops::run(pass.ops, ops::FillZero{dx});
    const std::int64_t width = lstms_[l - 1].width();
    for (std::size_t d = 0; d < 2; ++d)
      lstms_[l - 2 + d].backward(pass, trace.lstms[l - 2 + d],
                                 dy.columns(static_cast<std::int64_t>(d) * width, width), dx);
    dy = dx;
  }
  const GradTarget table = pass.grads->target(table_.grad);
  if (!table.accumulate) ops::run(pass.ops, ops::FillZero{table.tensor});
  ops::run(pass.ops, ops::AddTo{.x = dy, .y = table.tensor});
  pass.grads->notify(table_.grad);
}

}  // namespace stoa::nn
