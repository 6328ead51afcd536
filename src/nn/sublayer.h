// A branch of a transformer block: normalised stream in, branch output out. Attention and feed-forward are
// sublayers.
#pragma once

#include "nn/module.h"

namespace stoa::nn {

class Sublayer {
 public:
  virtual ~Sublayer() = default;

  // `input`: the activation that the branch reads, [T, hidden] in compute precision.
  virtual void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
                       int input) = 0;
  // The activation from which forward() makes the output: get() it before opening a frame of temporaries.
  virtual int last() const = 0;
  // Stash entry for the gradient of the output.
  virtual int output_gradient() const = 0;

  virtual void forward(Pass& pass, Saved& saved, TensorView y) const = 0;
  // kBoth, kInput: dy -> dx [T, hidden]. With kInput, dy is the stash entry output_gradient().
  virtual void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const = 0;
  // Weight gradients from the stash, after a backward with kInput.
  virtual void backward_weight(Pass& pass, Saved& saved) const = 0;
};

}  // namespace stoa::nn
