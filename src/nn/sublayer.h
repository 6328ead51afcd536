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

  // The activation of the stream that the output is added to, where a bottleneck may read it (nn/
  // adapted_sublayer.h); before declare().
  virtual void set_stream(int) {}

  virtual void forward(Pass& pass, Saved& saved, TensorView y) const = 0;
  // What dy gives the stream besides the branch's input: in scratch of the current frame, or none. To be
  // asked for before backward(), which may change dy.
  virtual TensorView stream_gradient(Pass&, Saved&, TensorView) const { return {}; }
  // kBoth, kInput: dy -> dx [T, hidden]. With kInput, dy is the stash entry output_gradient().
  virtual void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const = 0;
  // Weight gradients from the stash, after a backward with kInput.
  virtual void backward_weight(Pass& pass, Saved& saved) const = 0;
};

}  // namespace stoa::nn
