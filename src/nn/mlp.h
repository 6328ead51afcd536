// Feed-forward layer: down(f(up x)) or down(f(gate x) * up x).
#pragma once

#include "nn/linear.h"
#include "nn/sublayer.h"
#include "ops/activation.h"

namespace stoa::nn {

struct MlpOptions {
  std::string name;  // "layers.0.mlp"
  std::int64_t hidden = 0, ffn = 0;
  ops::ActivationKind activation = ops::ActivationKind::kGelu;
  bool gated = false;
  ops::ActivationClamp clamp = {};  // of the clamped swiglu
  bool bias = true;
  double deviation = 0.02, output_deviation = 0.02;
  parallel::TensorPlace place;  // columns are split among the ranks of a tensor-parallel group
};

class Mlp final : public Sublayer {
 public:
  explicit Mlp(const MlpOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return activated_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  MlpOptions options_;
  Linear up_, down_;
  int input_ = -1, raw_ = -1, activated_ = -1;    // activations
  int output_gradient_ = -1, raw_gradient_ = -1;  // stash
};

}  // namespace stoa::nn
