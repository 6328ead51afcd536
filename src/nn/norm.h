// LayerNorm or RMSNorm with its parameters; also applied to each head separately (q/k norm).
#pragma once

#include "nn/dropout.h"
#include "nn/module.h"
#include "ops/norm.h"

namespace stoa::nn {

struct NormOptions {
  ops::NormKind kind = ops::NormKind::kLayerNorm;
  double epsilon = 1e-5;
  bool bias = true;     // of a LayerNorm
  bool weights = true;  // false: no parameters at all (OLMo)
};

class Norm {
 public:
  // Every rank of a tensor-parallel group holds the parameters. `partial`: each sees some of the rows or
  // heads alone, and gradients are partial sums.
  Norm(std::string name, NormOptions options, std::int64_t width, const parallel::TensorPlace& place = {},
       bool partial = false);

  void declare(ParamList& params);
  bool trains() const { return gamma_.trained() || beta_.trained(); }

  // y = norm(x); stats may be none (inference).
  void forward(Pass& pass, TensorView x, TensorView y, TensorView stats) const;
  // sum = x + dropout(branch); y = norm(sum as stored).
  void add_forward(Pass& pass, TensorView x, TensorView branch, const DropoutRows& dropout, TensorView sum,
                   TensorView y, TensorView stats) const;

  struct Backward {
    TensorView x, stats, dy;
    TensorView dresidual;  // gradient past the norm, or none
    TensorView dx;
    DropoutRows dropout;
    TensorView dbranch;  // gets dropout'(dx), or none
  };
  // Also adds to the gradients of gamma and beta.
  void backward(Pass& pass, const Backward& tensors) const;

 private:
  std::string name_;
  NormOptions options_;
  std::int64_t width_;
  parallel::TensorPlace place_;
  bool partial_;
  Param gamma_, beta_;
};

}  // namespace stoa::nn
