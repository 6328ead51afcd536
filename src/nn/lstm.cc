#include "nn/lstm.h"

#include <cmath>

#include "nn/prompt_encoder.h"
#include "nn/tensor_columns.h"
#include "ops/activation.h"
#include "ops/linear.h"

namespace stoa::nn {
namespace {

constexpr std::int64_t kIn = 0, kForget = 1, kCell = 2, kOut = 3;  // gates

void sigmoid_gate(Pass& pass, TensorView pair, TensorView y) {
  ops::run(pass.ops,
           ops::ActivationForward{.kind = ops::ActivationKind::kSigmoid, .gated = true, .x = pair, .y = y});
}
void sigmoid_gate_backward(Pass& pass, TensorView pair, TensorView dy, TensorView dpair) {
  ops::run(pass.ops,
           ops::ActivationBackward{
               .kind = ops::ActivationKind::kSigmoid, .gated = true, .x = pair, .dy = dy, .dx = dpair});
}
TensorView tanh_of(Pass& pass, TensorView x) {
  const TensorView y = pass.ops.scratch.allocate(x.dtype, x.shape);
  ops::run(pass.ops, ops::ActivationForward{.kind = ops::ActivationKind::kTanh, .x = x, .y = y});
  return y;
}

}  // namespace

Lstm::Lstm(std::string name, const std::string& suffix, std::int64_t inputs, std::int64_t width)
    : name_(std::move(name)),
      suffix_(suffix),
      inputs_(inputs),
      width_(width),
      reverse_(suffix.ends_with("_reverse")) {}

void Lstm::declare(ParamList& params, const parallel::TensorPlace& place) {
  const ParamInit init{InitKind::kUniform, 1 / std::sqrt(static_cast<double>(width_))};
  const auto add = [&](const char* what, const Shape& shape) {
    return params.add(encoder_parameter(name_ + "." + what + "_" + suffix_, shape, init, place));
  };
  in_ = add("weight_ih", {4 * width_, inputs_});
  out_ = add("weight_hh", {4 * width_, width_});
  in_bias_ = add("bias_ih", {4 * width_});
  out_bias_ = add("bias_hh", {4 * width_});
}

TensorView Lstm::pair(Pass& pass, TensorView gate, TensorView passed) const {
  const TensorView out = pass.ops.scratch.allocate(gate.dtype, {1, 2 * width_});
  copy_rows(pass, gate, out.columns(0, width_));
  copy_rows(pass, passed, out.columns(width_, width_));
  return out;
}

Lstm::Trace Lstm::forward(Pass& pass, TensorView x) const {
  Scratch& scratch = pass.ops.scratch;
  const std::int64_t rows = x.rows();
  Trace trace{.x = x,
              .gates = scratch.allocate(x.dtype, {rows, 4 * width_}),
              .cells = scratch.allocate(x.dtype, {rows, width_}),
              .outer = scratch.allocate(x.dtype, {rows, width_})};
  Scratch::Frame frame(scratch);
  const TensorView given = scratch.allocate(x.dtype, trace.gates.shape),
                   zeros = scratch.allocate(x.dtype, {1, width_});
  ops::run(pass.ops, ops::FillZero{zeros});
  ops::run(pass.ops,
           ops::LinearForward{
               .x = x, .w = pass.params.get(in_.value), .bias = pass.params.get(in_bias_.value), .y = given});
  TensorView h = zeros, c = zeros;
  for (std::int64_t step = 0; step < rows; ++step) {
    Scratch::Frame inner(scratch);
    const std::int64_t t = row(step, rows);
    const TensorView gates = trace.gates.slice(t, 1), cell = trace.cells.slice(t, 1),
                     outer = trace.outer.slice(t, 1), kept = scratch.allocate(x.dtype, {1, width_});
    ops::run(
        pass.ops,
        ops::LinearForward{
            .x = h, .w = pass.params.get(out_.value), .bias = pass.params.get(out_bias_.value), .y = gates});
    ops::run(pass.ops, ops::AddTo{.x = given.slice(t, 1), .y = gates});
    sigmoid_gate(pass, pair(pass, gate_of(gates, kIn), tanh_of(pass, gate_of(gates, kCell))), cell);
    sigmoid_gate(pass, pair(pass, gate_of(gates, kForget), c), kept);
    ops::run(pass.ops, ops::AddTo{.x = kept, .y = cell});
    sigmoid_gate(pass, pair(pass, gate_of(gates, kOut), tanh_of(pass, cell)), outer);
    h = outer, c = cell;
  }
  return trace;
}

void Lstm::backward(Pass& pass, const Trace& trace, TensorView dh, TensorView dx) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const DType type = trace.x.dtype;
  const std::int64_t rows = trace.x.rows();
  const Shape one{1, width_};
  const TensorView dgates = scratch.allocate(type, trace.gates.shape),
                   before = scratch.allocate(type, trace.outer.shape),  // h of the step before, by row
      dh_after = scratch.allocate(type, one), dc_after = scratch.allocate(type, one),
                   zeros = scratch.allocate(type, one);
  for (const TensorView& x : {dh_after, dc_after, zeros}) ops::run(pass.ops, ops::FillZero{x});
  for (std::int64_t step = rows; step-- > 0;) {
    Scratch::Frame inner(scratch);
    const std::int64_t t = row(step, rows);
    const TensorView gates = trace.gates.slice(t, 1), dgate = dgates.slice(t, 1),
                     cell = trace.cells.slice(t, 1),
                     c_before = step == 0 ? zeros : trace.cells.slice(row(step - 1, rows), 1),
                     h_before = step == 0 ? zeros : trace.outer.slice(row(step - 1, rows), 1),
                     dout = scratch.allocate(type, one), dc = scratch.allocate(type, one),
                     dpair = scratch.allocate(type, {1, 2 * width_});
    copy_rows(pass, h_before, before.slice(t, 1));
    copy_rows(pass, dh.slice(t, 1), dout);
    ops::run(pass.ops, ops::AddTo{.x = dh_after, .y = dout});
    const auto to_gate = [&](std::int64_t which) {
      copy_rows(pass, dpair.columns(0, width_), gate_of(dgate, which));
    };
    const auto dpassed = [&] { return dpair.columns(width_, width_); };
    const auto tanh_backward = [&](TensorView x, TensorView dy, TensorView to) {
      ops::run(pass.ops,
               ops::ActivationBackward{.kind = ops::ActivationKind::kTanh, .x = x, .dy = dy, .dx = to});
    };
    sigmoid_gate_backward(pass, pair(pass, gate_of(gates, kOut), tanh_of(pass, cell)), dout, dpair);
    to_gate(kOut);
    tanh_backward(cell, dpassed(), dc);
    ops::run(pass.ops, ops::AddTo{.x = dc_after, .y = dc});
    sigmoid_gate_backward(pass, pair(pass, gate_of(gates, kIn), tanh_of(pass, gate_of(gates, kCell))), dc,
                          dpair);
    to_gate(kIn);
    tanh_backward(gate_of(gates, kCell), dpassed(), gate_of(dgate, kCell));
    sigmoid_gate_backward(pass, pair(pass, gate_of(gates, kForget), c_before), dc, dpair);
    to_gate(kForget);
    copy_rows(pass, dpassed(), dc_after);
    ops::run(pass.ops,
             ops::LinearBackwardInput{.dy = dgate, .w = pass.params.get(out_.value), .dx = dh_after});
  }
  ops::run(pass.ops, ops::LinearBackwardInput{
                         .dy = dgates, .w = pass.params.get(in_.value), .dx = dx, .accumulate = true});
  add_linear_gradient(pass, trace.x, dgates, in_, in_bias_);
  add_linear_gradient(pass, before, dgates, out_, out_bias_);
}

}  // namespace stoa::nn
