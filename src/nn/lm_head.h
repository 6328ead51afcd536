// Final norm, output head and loss.
//
// The seed of backward (loss_scale / N) is known before the step, so training's forward pass also does the
// head's whole backward pass, a piece of the tokens at a time: logits of the piece -> their gradient in place
// -> gradient of the normed stream and of the weights. No [all tokens, vocabulary] tensor exists, logits are
// never computed twice, and all that is kept for later is the gradient of the input, in the place of the
// input itself.
//
// Among the ranks of a tensor-parallel group the vocabulary is split: every rank has the logits of its ids,
// and ranks exchange four numbers per token, from which each makes the loss and its own part of the gradient.
#pragma once

#include <span>

#include "nn/embedding.h"
#include "nn/norm.h"

namespace stoa::nn {

struct LmHeadOptions {
  std::int64_t vocabulary = 0, padded_vocabulary = 0, hidden = 0;
  NormOptions norm;
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;
  double smoothing = 0, z_weight = 0;  // of the loss that is trained (ops/loss.h)
};

class LmHead {
 public:
  explicit LmHead(LmHeadOptions options);

  // `tied`: the token embedding of the same chunk; none: a matrix of its own.
  void declare(ParamList& params, ParamId tied);
  // The embedding is on another pipeline stage: the same canonical tensor, held here too.
  void declare_tied_copy(ParamList& params);

  // Adds the loss of the microbatch to state[kLossSum]; replaces x [T, hidden] by its gradient; adds to the
  // gradients of norm and head.
  void train(Pass& pass, TensorView x) const;
  // Plain loss of every token to `losses` [T] (not masked), added to state[kLossSum] where the pass has a
  // state. x: this rank's rows of the stream.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const;
  // Logits [rows.size(), padded vocabulary] of chosen tokens, in ascending order; columns beyond the
  // vocabulary have no meaning. ConfigError where the vocabulary is split.
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const;

  // Tokens in a piece: as even as possible with at most kLogitsBytes of logits (but at least 64 tokens).
  std::int64_t piece(std::int64_t tokens, DType type) const;
  std::int64_t largest_piece(DType type) const;
  static constexpr std::int64_t kLogitsBytes = 128 << 20;

 private:
  ParamSpec matrix(std::string name) const;
  // Losses [T] of a piece, and its logits' gradient in their place when `train`.
  void loss(Pass& pass, TensorView logits, std::int64_t begin, TensorView losses, bool train) const;

  LmHeadOptions options_;
  VocabularyPart part_;
  Norm norm_;
  Param weight_;
};

}  // namespace stoa::nn
