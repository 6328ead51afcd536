// Head of a classification (Devlin et al. 2018, section 4): tokens with a label (MaskedTargets) pass dropout
// and a linear layer to the classes. An encoder classifies a whole text by its first token, which passes a
// pooler before, f(W x + b) with f tanh or another activation; a decoder by its last token. Losses are added
// over labelled tokens: divided by their number, mean cross entropy.
#pragma once

#include <optional>

#include "nn/head.h"
#include "nn/linear.h"
#include "ops/activation.h"

namespace stoa::nn {

struct ClassHeadOptions {
  std::string name;  // of the linear layer: "head.classes"
  std::int64_t hidden = 0, classes = 0;
  bool bias = true;     // of the linear layer
  bool pooled = false;  // one labelled token per row at most, the first, through the pooler
  ops::ActivationKind pooler = ops::ActivationKind::kTanh;
  double deviation = 0.02;
  float dropout = 0;
  Precision precision;
  parallel::TensorPlace place;
  double smoothing = 0, z_weight = 0;  // of the loss that is trained (ops/loss.h)
  // One number per text instead of classes, against labels that are numbers (data/number_label.h): the loss
  // is the squared error.
  bool regression = false;
};

class ClassHead final : public Head {
 public:
  explicit ClassHead(const ClassHeadOptions& options);

  // Nothing is tied.
  void declare(ParamList& params, ParamId tied) override;
  void declare_tied_copy(ParamList& params) override;
  void train(Pass& pass, TensorView x) const override;
  // losses[i] is that of the i-th labelled token; the rest of `losses` is not written.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;

 private:
  // Logits of picked tokens [M, hidden] without dropout.
  void project(Pass& pass, TensorView picked, TensorView logits) const;
  void loss(Pass& pass, TensorView logits, TensorView losses, bool train) const;
  // Errors of scores [M, 1], which become their gradient when `train`.
  void squared_errors(Pass& pass, TensorView scores, TensorView losses, bool train) const;
  // Dropout of the pooled rows, whose numbers are those of their samples; its own backward pass.
  void drop_pooled(Pass& pass, TensorView x, TensorView y) const;
  float dropout(const Pass& pass) const { return pass.training ? options_.dropout : 0; }

  ClassHeadOptions options_;
  std::optional<Linear> pooler_;
  Linear classes_;
};

}  // namespace stoa::nn
