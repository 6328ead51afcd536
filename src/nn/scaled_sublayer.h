// A branch times a constant: y = multiplier * layer(x) (residual_multiplier of Granite; scale_depth of
// MiniCPM, 2404.06395, table 1).
#pragma once

#include <memory>

#include "nn/sublayer.h"

namespace stoa::nn {

class ScaledSublayer final : public Sublayer {
 public:
  ScaledSublayer(std::unique_ptr<Sublayer> layer, double multiplier)
      : layer_(std::move(layer)), multiplier_(multiplier) {}

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override {
    layer_->declare(params, table, tokens, precision, input);
  }
  int last() const override { return layer_->last(); }
  int output_gradient() const override { return layer_->output_gradient(); }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override { layer_->backward_weight(pass, saved); }

 private:
  void scale(Pass& pass, TensorView rows) const;

  std::unique_ptr<Sublayer> layer_;
  const double multiplier_;
};

// `layer` itself where the multiplier is 1.
std::unique_ptr<Sublayer> scaled(std::unique_ptr<Sublayer> layer, double multiplier);

}  // namespace stoa::nn
