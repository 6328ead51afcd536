// Head of extractive question answering (Devlin et al. 2018, section 4.2): a linear layer gives every token
// two logits, to begin the answer and to end it, and each is a softmax over the tokens of the row. The loss
// of a row is the mean of its two cross entropies.
//
// Targets (MaskedTargets) are one labelled token per row, the first: its label is the token of the row that
// begins the answer, the sentence label that which ends it.
#pragma once

#include "nn/head.h"
#include "nn/linear.h"

namespace stoa::nn {

struct SpanHeadOptions {
  std::int64_t hidden = 0;
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;
};

class SpanHead final : public Head {
 public:
  explicit SpanHead(const SpanHeadOptions& options);

  // Nothing is tied.
  void declare(ParamList& params, ParamId tied) override;
  void declare_tied_copy(ParamList& params) override;
  void train(Pass& pass, TensorView x) const override;
  // losses[r] is that of row r; the rest of `losses` is not written.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;

 private:
  // Losses [rows] of logits [T, 2], which become their gradient when `train`; their sum to the state, if any.
  void loss(Pass& pass, TensorView logits, TensorView losses, bool train) const;

  SpanHeadOptions options_;
  Linear span_;
};

}  // namespace stoa::nn
