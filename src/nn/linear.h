// A linear layer y = x W^T + b. Its matrix may hold several canonical matrices, one below the other (q, k,
// v).
#pragma once

#include "nn/module.h"

namespace stoa::nn {

struct LinearPiece {
  std::string name;  // canonical, without ".weight": "layers.0.attention.q"
  std::int64_t outputs = 0;
};

struct LinearOptions {
  std::string name;  // of the fused tensor, without ".weight"
  std::int64_t inputs = 0;
  std::vector<LinearPiece> pieces;
  bool bias = true;
  double deviation = 0.02;  // of the initial weights
};

class Linear {
 public:
  explicit Linear(LinearOptions options);

  void declare(ParamList& params);
  std::int64_t inputs() const { return options_.inputs; }
  std::int64_t outputs() const { return outputs_; }

  void forward(Pass& pass, TensorView x, TensorView y) const;           // [T, K] -> [T, N]
  void backward_input(Pass& pass, TensorView dy, TensorView dx) const;  // [T, N] -> [T, K]
  void backward_weight(Pass& pass, TensorView x, TensorView dy) const;  // into the main gradients

 private:
  LinearOptions options_;
  std::int64_t outputs_ = 0;
  Param weight_, bias_;
};

}  // namespace stoa::nn
