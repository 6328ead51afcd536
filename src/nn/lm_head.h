// Final norm, output head and loss (nn/output_layer.h). All that training's forward pass keeps for later is
// the gradient of the input, in the place of the input itself.
#pragma once

#include "nn/head.h"
#include "nn/norm.h"
#include "nn/output_layer.h"

namespace stoa::nn {

struct LmHeadOptions {
  OutputLayerOptions output;
  NormOptions norm;
  double scale = 1;  // of the normed rows
};

class LmHead final : public Head {
 public:
  explicit LmHead(const LmHeadOptions& options);

  void declare(ParamList& params, ParamId tied) override;
  void declare_tied_copy(ParamList& params) override;
  void train(Pass& pass, TensorView x) const override;
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;
  void normed_rows(Pass& pass, TensorView x, TensorView rows) const override;
  void project(Pass& pass, TensorView rows, TensorView logits) const override {
    output_.project(pass, rows, logits);
  }

 private:
  void normalise(Pass& pass, TensorView x, TensorView y, TensorView stats) const;
  void rescale(Pass& pass, TensorView rows) const;

  OutputLayerOptions options_;
  const double scale_;
  Norm norm_;
  OutputLayer output_;
};

}  // namespace stoa::nn
