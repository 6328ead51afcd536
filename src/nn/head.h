// The end of a model: what the residual stream becomes after the last block.
#pragma once

#include <span>

#include "base/error.h"
#include "nn/module.h"

namespace stoa::nn {

class Head {
 public:
  virtual ~Head() = default;

  // `tied`: the token embedding of the same chunk, for a head that is tied to it; none: a matrix of its own.
  virtual void declare(ParamList& params, ParamId tied) = 0;
  // The embedding is on another pipeline stage: the same canonical tensor, held here too.
  virtual void declare_tied_copy(ParamList& params) = 0;

  // Adds the loss of the microbatch to state[kLossSum]; replaces x, this rank's rows of the stream
  // [T, hidden], by its gradient; adds to the gradients of the head's parameters.
  virtual void train(Pass& pass, TensorView x) const = 0;
  // Plain losses (not masked) to `losses` [T], those of the tokens that count added to state[kLossSum] where
  // the pass has a state.
  virtual void evaluate(Pass& pass, TensorView x, TensorView losses) const = 0;
  // Logits [rows.size(), padded vocabulary or classes] of chosen tokens, in ascending order; columns beyond
  // the vocabulary have no meaning. ConfigError where the vocabulary is split.
  virtual void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                      TensorView logits) const = 0;
  // The two halves of logits(), for heads that predict tokens: normed rows [T, hidden] of x, whole on every
  // rank, and logits [rows, this rank's columns] of some of them.
  virtual void normed_rows(Pass&, TensorView, TensorView) const {
    fail<InternalError>("this head predicts no tokens");
  }
  virtual void project(Pass&, TensorView, TensorView) const {
    fail<InternalError>("this head predicts no tokens");
  }
  // Logits [rows.size(), 2] of whether the second sentence of a row follows the first, of the rows' first
  // tokens, in ascending order: for heads that judge sentences.
  virtual void sentence_logits(Pass&, TensorView, std::span<const std::int32_t>, TensorView) const {
    fail<InternalError>("this head judges no sentences");
  }
};

}  // namespace stoa::nn
