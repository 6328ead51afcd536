// Transformer block whose branches read the same stream (GPT-NeoX, 2204.06745, section 2.1):
// out = x + dropout(attention(norm1 x)) + dropout(mlp(norm2 x)). With one norm, that of attention is norm2
// too (GPT-J, Phi, Cohere).
#pragma once

#include "nn/transformer_block.h"

namespace stoa::nn {

class ParallelBlock final : public Block {
 public:
  explicit ParallelBlock(const TransformerBlockOptions& options);
  ParallelBlock(const ParallelBlock&) = delete;  // activations refer to it
  ParallelBlock& operator=(const ParallelBlock&) = delete;

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return input_; }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  // A branch and the norm that it reads.
  struct Branch {
    const char *label, *norm_label;
    std::optional<Norm> norm;  // none: the other branch's
    std::unique_ptr<Sublayer> layer;
    int normed = -1, stats = -1;
  };
  void declare(Branch& branch, ParamList& params, ActivationTable& table, std::int64_t tokens);
  void make_normed(const Branch& branch, Pass& pass, Saved& saved) const;
  DropoutRows dropout(const Pass& pass, const Branch& branch) const;
  // to = x + dropout(the branch's output).
  void add(const Branch& branch, Pass& pass, Saved& saved, TensorView x, TensorView to) const;
  // Gradient of the norm's output, in compute precision. `dstream`: what it gives the stream, or none.
  TensorView layer_backward(const Branch& branch, Pass& pass, Saved& saved, Which which, TensorView dout,
                            TensorView& dstream) const;
  void norm_backward(const Branch& branch, Pass& pass, Saved& saved, TensorView dnormed, TensorView dresidual,
                     TensorView din) const;

  TransformerBlockOptions options_;
  Branch attention_, mlp_;
  int input_ = -1;
};

}  // namespace stoa::nn
