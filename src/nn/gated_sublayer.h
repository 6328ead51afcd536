// A branch times a number per token: y = sigmoid(w · x) layer(x), the shared expert of Qwen 2 MoE
// (2407.10671, section 2.2.2). The gate's arithmetic is in the accumulation type and its weight is held in
// it, as a router's.
#pragma once

#include <memory>

#include "nn/sublayer.h"

namespace stoa::nn {

struct GatedSublayerOptions {
  std::string name;  // of the gate: "layers.0.moe.shared_gate"
  std::int64_t hidden = 0;
  double deviation = 0.02;
  parallel::TensorPlace place;  // of the stream
};

class GatedSublayer final : public Sublayer {
 public:
  GatedSublayer(const GatedSublayerOptions& options, std::unique_ptr<Sublayer> layer);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return branch_; }
  int output_gradient() const override { return layer_->output_gradient(); }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  void make_logits(Pass& pass, Saved& saved) const;
  void make_gates(Pass& pass, Saved& saved) const;
  void make_branch(Pass& pass, Saved& saved) const;
  void gate_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const;

  GatedSublayerOptions options_;
  std::unique_ptr<Sublayer> layer_;
  Param gate_;
  int input_ = -1, logits_ = -1, gates_ = -1, branch_ = -1;  // activations
  int logits_gradient_ = -1;                                 // stash
};

}  // namespace stoa::nn
