// Transformer block whose branches are normalised after, or before and after, they were computed:
// x1 = x + dropout(norm(attention(x))); out = x1 + dropout(norm(mlp(x1))), with norms before as an option.
#pragma once

#include "nn/normed_branch.h"
#include "nn/transformer_block.h"

namespace stoa::nn {

class BranchNormBlock final : public Block {
 public:
  explicit BranchNormBlock(const TransformerBlockOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return input_; }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  TransformerBlockOptions options_;
  NormedBranch attention_, mlp_;
  int input_ = -1, middle_ = -1;
};

}  // namespace stoa::nn
