// The factors of what a linear layer writes or reads (IA3: nn/adapter_policy.h). y = f * (W x + b), whose
// factors are split as the layer's outputs; or y = W (f * x) + b, whose factors are split as its inputs. They
// commute with the sums over tensor-parallel ranks, so that they need no communication.
#pragma once

#include "nn/adapter_policy.h"
#include "nn/linear_options.h"
#include "nn/module.h"

namespace stoa::nn {

class Rescaled {
 public:
  static constexpr const char* kSuffix = ".ia3_l";  // ends names of factors

  // `options`: of the layer, with the rows and columns that this rank holds.
  void declare(ParamList& params, const LinearOptions& options);
  explicit operator bool() const { return reads_ || !outputs_.empty(); }

  // What the layer multiplies by W: x [T, K], or in scratch.
  TensorView input(Pass& pass, TensorView x) const;
  // y [T, N] of the layer, or its gradient, becomes f * y.
  void scale_outputs(Pass& pass, TensorView y) const;
  // The gradient of W x + b, of which dy is scaled: dy, or in scratch.
  TensorView gradient(Pass& pass, TensorView dy) const;
  // dx, the gradient of what input() returns, becomes that of x.
  void backward_input(Pass& pass, TensorView dx) const;
  // Into the main gradients. `dinput`: the gradient of what input() returns; `product`: W x + b, this rank's
  // part of it. Each is asked for only where it is needed.
  using Recompute = std::function<TensorView()>;
  void backward(Pass& pass, TensorView x, TensorView dy, const Recompute& dinput,
                const Recompute& product) const;
  // w [N, K] becomes the matrix that the layer multiplies by.
  void scale(Pass& pass, TensorView w) const;

 private:
  struct Outputs {
    std::int64_t begin = 0, count = 0;  // columns of y
    Param factors;
  };
  std::vector<Outputs> outputs_;
  Param reads_;  // or none
};

}  // namespace stoa::nn
