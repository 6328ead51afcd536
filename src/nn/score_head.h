// Head of a reward model or a regression on a decoder: a linear layer of one output without bias gives every
// token a score, as the `score` of transformers' ...ForSequenceClassification with one label does; that of a
// text is its last token's. Objectives (tune/objective.h) weigh tokens: a score has the place that the
// log-probability of a label has elsewhere, so the loss of a token is minus its score.
#pragma once

#include "nn/head.h"
#include "nn/linear.h"

namespace stoa::nn {

struct ScoreHeadOptions {
  std::string name;  // of the linear layer
  std::int64_t hidden = 0;
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;
};

class ScoreHead final : public Head {
 public:
  explicit ScoreHead(const ScoreHeadOptions& options);

  // Nothing is tied.
  void declare(ParamList& params, ParamId tied) override;
  void declare_tied_copy(ParamList& params) override;
  void train(Pass& pass, TensorView x) const override;
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;

 private:
  // losses [T] of all rows.
  void loss(Pass& pass, TensorView rows, TensorView losses) const;
  // Gradient [T, 1] of the scores, in scratch of the current frame: minus the weight of each token, times the
  // seed, which the device alone knows.
  TensorView gradient(Pass& pass) const;

  ScoreHeadOptions options_;
  Linear score_;
};

}  // namespace stoa::nn
