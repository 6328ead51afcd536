// Mixture of experts in place of a feed-forward layer: a router, k of E experts per token, and shared experts
// that see every token (Mixtral 2401.04088; DeepSeekMoE 2401.06066). Nothing is dropped: a microbatch of T
// tokens has T k rows among its experts, whatever the router decides, so memory is known before.
//
// The router runs in the accumulation type, and its weight is held in it: choices must not depend on the
// rounding of logits. A row is multiplied by its router weight before the down projection, so that the
// experts' outputs are not kept for the router's gradient.
#pragma once

#include <memory>

#include "nn/mlp.h"
#include "ops/moe.h"

namespace stoa::nn {

struct MoeOptions {
  std::string name;  // "layers.0.moe"
  std::int64_t hidden = 0, ffn = 0;
  std::int64_t experts = 0, chosen = 0;
  ops::RouterOptions router;
  double balance = 0, z = 0;    // coefficients of the router's losses (ops::RouterBackward)
  std::int64_t shared_ffn = 0;  // width of the shared experts together; 0: none
  ops::ActivationKind activation = ops::ActivationKind::kSilu;
  bool gated = true;
  double deviation = 0.02, output_deviation = 0.02;
};

class Moe final : public Sublayer {
 public:
  explicit Moe(const MoeOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return scaled_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  void declare_params(ParamList& params);
  void make_logits(Pass& pass, Saved& saved) const;
  void make_choice(Pass& pass, Saved& saved) const;
  void make_groups(Pass& pass, Saved& saved) const;
  void make_gathered(Pass& pass, Saved& saved) const;
  void make_raw(Pass& pass, Saved& saved) const;
  void make_scaled(Pass& pass, Saved& saved) const;
  void router_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const;
  void down_weight_gradient(Pass& pass, TensorView scaled, TensorView drows, TensorView sorted) const;
  void up_weight_gradient(Pass& pass, TensorView gathered, TensorView draw, TensorView sorted) const;
  // An activation of k rows per token, as [T k, columns].
  TensorView rows(TensorView by_token) const;

  MoeOptions options_;
  std::int64_t raw_width_ = 0;  // columns of the up projection
  Param router_, up_, down_;
  std::unique_ptr<Mlp> shared_;
  int input_ = -1, logits_ = -1, experts_ = -1, weights_ = -1, order_ = -1, place_ = -1, sorted_ = -1,
      gathered_ = -1, raw_ = -1, scaled_ = -1;                           // activations
  int output_gradient_ = -1, raw_gradient_ = -1, logits_gradient_ = -1;  // stash
};

}  // namespace stoa::nn
