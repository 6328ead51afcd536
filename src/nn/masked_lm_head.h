// Head of a masked language model (Devlin et al. 2018): tokens that are to be predicted pass a dense layer,
// an activation and a norm to the output layer; optionally the first token of every row passes a pooler,
// tanh(W x + b), to the binary question whether the two segments belong together. The work follows the masked
// tokens (MaskedTargets), not all of them.
//
// The loss is the sum over masked tokens plus, per row, the sentence loss times valid tokens per sample of
// the global batch: divided by the valid tokens, that is mean token loss plus mean sentence loss.
#pragma once

#include "nn/head.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/output_layer.h"
#include "ops/activation.h"

namespace stoa::nn {

struct MaskedLmHeadOptions {
  OutputLayerOptions output;
  NormOptions norm;
  ops::ActivationKind activation = ops::ActivationKind::kGelu;
  bool dense_bias = true;
  bool binary = false;  // the sentence head
};

// tanh(W x + b) of the first token of every row, and two logits of it.
class SentenceHead {
 public:
  SentenceHead(std::int64_t hidden, double deviation, Precision precision,
               const parallel::TensorPlace& place);

  void declare(ParamList& params);
  // Adds the weighted losses to the state; x [rows, hidden] in compute precision is replaced by its gradient.
  void train(Pass& pass, TensorView x) const;
  void evaluate(Pass& pass, TensorView x) const;
  void logits(Pass& pass, TensorView x, TensorView logits) const;

 private:
  // Losses of two logits per row, which become their gradient in place when `train`; to the state.
  void loss(Pass& pass, TensorView logits, bool train) const;

  Precision precision_;
  Linear pooler_, binary_;
};

class MaskedLmHead final : public Head {
 public:
  explicit MaskedLmHead(const MaskedLmHeadOptions& options);

  void declare(ParamList& params, ParamId tied) override;
  void declare_tied_copy(ParamList& params) override;
  void train(Pass& pass, TensorView x) const override;
  // losses[i] is that of the i-th masked token; the rest of `losses` is not written.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;
  void sentence_logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                       TensorView logits) const override;

 private:
  struct Transformed {
    TensorView raw, activated, normed, stats;  // [M, hidden]; stats none in inference
  };
  // dense -> activation -> norm of rows x in compute precision; in scratch of the current frame.
  Transformed transform(Pass& pass, TensorView x, bool training) const;
  // Rows of MaskedTargets::rows out of the stream, in compute precision; in scratch of the current frame.
  TensorView pick(Pass& pass, TensorView x) const;
  OutputLayer::Targets targets(const Pass& pass, TensorView losses) const;

  MaskedLmHeadOptions options_;
  Linear dense_;
  Norm norm_;
  OutputLayer output_;
  std::optional<SentenceHead> sentence_;
};

}  // namespace stoa::nn
