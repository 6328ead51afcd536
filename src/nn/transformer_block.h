// Pre-norm transformer block: x1 = x + dropout(attention(norm1 x)); out = x1 + dropout(mlp(norm2 x1)).
#pragma once

#include "nn/attention.h"
#include "nn/bottleneck.h"
#include "nn/mlp.h"
#include "nn/moe_options.h"
#include "nn/norm.h"

namespace stoa::nn {

// Where the branches of a block are normalised.
enum class NormPlacement : std::uint8_t {
  kBefore,  // their inputs
  kAfter,   // their outputs, before they are added to the stream (OLMo 2)
  kBoth     // inputs and outputs (Gemma 2)
};

// Common to every kind of block (make_block).
struct TransformerBlockOptions {
  std::string name;  // "layers.0"
  NormPlacement norm_placement = NormPlacement::kBefore;
  bool parallel = false;  // both branches read the block's input (nn/parallel_block.h); needs kBefore
  bool one_norm = false;  // with `parallel`: the branches share a norm
  NormOptions norm;
  bool attention_norm = true;  // false: attention reads the stream without norm (ModernBERT's first layer)
  SelfAttentionOptions attention;
  MlpOptions mlp;
  std::optional<MoeOptions> moe;                                    // in place of mlp
  double residual_multiplier = 1;                                   // factor of the branches' outputs
  std::optional<BottleneckOptions> attention_adapter, mlp_adapter;  // bottlenecks of the branches
  float dropout = 0;                                                // of both branches
  Precision precision;
};

// The first branch of a block.
std::unique_ptr<Sublayer> make_attention(const TransformerBlockOptions& options);
// The second one.
std::unique_ptr<Sublayer> make_mlp(const TransformerBlockOptions& options);

class TransformerBlock final : public Block {
 public:
  explicit TransformerBlock(const TransformerBlockOptions& options);
  TransformerBlock(const TransformerBlock&) = delete;  // activations refer to it
  TransformerBlock& operator=(const TransformerBlock&) = delete;

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return input_; }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  // din may be dout.
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  void make_norm1(Pass& pass, Saved& saved) const;
  void make_branch(Pass& pass, Saved& saved) const;
  void make_middle(Pass& pass, Saved& saved) const;
  void make_norm2(Pass& pass, Saved& saved) const;
  DropoutRows dropout(const Pass& pass, const char* branch) const;

  TransformerBlockOptions options_;
  std::optional<Norm> norm1_;
  Norm norm2_;
  std::unique_ptr<Sublayer> attention_, mlp_;
  int input_ = -1, normed1_ = -1, stats1_ = -1, branch_ = -1, middle_ = -1, normed2_ = -1, stats2_ = -1;
};

// A branch_norm_block, parallel_block or transformer_block. InternalError: parallel branches with norms after
// them.
std::unique_ptr<Block> make_block(const TransformerBlockOptions& options);

}  // namespace stoa::nn
