// One direction of a layer of long short-term memory (Hochreiter and Schmidhuber 1997; gates i, f, g, o and
// two biases, as in PyTorch), for the few rows of a prompt encoder (nn/prompt_encoder.h): its steps are of
// one row each.
//   c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g),  h_t = sigmoid(o) tanh(c_t)
#pragma once

#include "nn/module.h"

namespace stoa::nn {

class Lstm {
 public:
  // `suffix`: "l0" or "l0_reverse", as in PyTorch's names. The reverse direction reads the last row first.
  Lstm(std::string name, const std::string& suffix, std::int64_t inputs, std::int64_t width);

  void declare(ParamList& params, const parallel::TensorPlace& place);
  std::int64_t width() const { return width_; }

  // What the backward pass needs of the forward pass; in scratch of the frame in which forward() ran.
  struct Trace {
    TensorView x;             // [P, inputs]
    TensorView gates;         // [P, 4 width]: before their functions
    TensorView cells, outer;  // [P, width]: c and h
  };
  // h in Trace::outer.
  Trace forward(Pass& pass, TensorView x) const;
  // dx [P, inputs] += the gradient of x from that of h, dh [P, width], rows of which may be strided; the
  // weights' into the main gradients.
  void backward(Pass& pass, const Trace& trace, TensorView dh, TensorView dx) const;

 private:
  // The rows in the order of the steps.
  std::int64_t row(std::int64_t step, std::int64_t rows) const { return reverse_ ? rows - 1 - step : step; }
  // [gate | what it lets pass], one row, in scratch.
  TensorView pair(Pass& pass, TensorView gate, TensorView passed) const;
  TensorView gate_of(TensorView gates, std::int64_t which) const {
    return gates.columns(which * width_, width_);
  }

  std::string name_, suffix_;
  std::int64_t inputs_, width_;
  bool reverse_;
  Param in_, out_, in_bias_, out_bias_;  // weight_ih, weight_hh, bias_ih, bias_hh
};

}  // namespace stoa::nn
