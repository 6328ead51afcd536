// Post-norm transformer block, that of the first transformers and of BERT:
// x1 = norm1(x + dropout(attention(x))); out = norm2(x1 + dropout(mlp(x1))).
#pragma once

#include "nn/attention.h"
#include "nn/bottleneck.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace stoa::nn {

struct PostNormBlockOptions {
  std::string name;  // "layers.0"
  NormOptions norm;
  SelfAttentionOptions attention;
  MlpOptions mlp;
  std::optional<BottleneckOptions> attention_adapter, mlp_adapter;  // bottlenecks of the branches
  float dropout = 0;                                                // of both branches
  Precision precision;
};

class PostNormBlock final : public Block {
 public:
  explicit PostNormBlock(const PostNormBlockOptions& options);
  PostNormBlock(const PostNormBlock&) = delete;  // activations refer to it
  PostNormBlock& operator=(const PostNormBlock&) = delete;

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return input_; }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  // din may be dout.
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  using MakeMember = void (PostNormBlock::*)(Pass&, Saved&) const;
  void make_input_compute(Pass& pass, Saved& saved) const;
  void make_branch1(Pass& pass, Saved& saved) const;
  void make_middle(Pass& pass, Saved& saved) const;
  void make_middle_compute(Pass& pass, Saved& saved) const;
  void make_branch2(Pass& pass, Saved& saved) const;
  void make_sum2(Pass& pass, Saved& saved) const;
  void make_output(Pass& pass, Saved& saved, TensorView out) const;
  // The gradient of a branch, from that of the sum that it was added to.
  TensorView branch_gradient(Pass& pass, Saved& saved, Which which, const Sublayer& sublayer,
                             const char* branch, TensorView dsum) const;
  DropoutRows dropout(const Pass& pass, const char* branch) const;

  PostNormBlockOptions options_;
  Norm norm1_, norm2_;
  std::unique_ptr<Sublayer> attention_, mlp_;
  int input_ = -1, branch1_ = -1, sum1_ = -1, stats1_ = -1, middle_ = -1;  // middle: norm1 of sum1
  int branch2_ = -1, sum2_ = -1, stats2_ = -1;
  int input_compute_ = -1, middle_compute_ = -1;  // what the branches read: the same in compute precision
};

}  // namespace stoa::nn
