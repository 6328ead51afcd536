// A pre-norm block of an encoder-decoder model (Raffel et al. 2020). The stream of such a model holds both
// sequences: rows of the source, then rows of the target. A block of the encoder changes the former,
// x += attention(norm x), x += mlp(norm x); the last one norms them at the end. A block of the decoder
// changes the latter, with x += cross_attention(norm x, source) between the two. The other rows pass through:
// what the decoder needs travels with the stream, wherever a pipeline cuts the model.
#pragma once

#include "nn/attention.h"
#include "nn/bottleneck.h"
#include "nn/cross_attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace stoa::nn {

struct EncoderDecoderBlockOptions {
  std::string name;  // "encoder.0"
  NormOptions norm;
  SelfAttentionOptions attention;
  std::optional<CrossAttentionOptions> cross;  // of a decoder's block
  MlpOptions mlp;
  std::optional<BottleneckOptions> attention_adapter, mlp_adapter;  // bottlenecks of these branches
  std::string final_norm;  // name of the norm of the encoder's output; "" in all blocks but the last
  float dropout = 0;       // of all branches, and of the encoder's output
  Precision precision;
  std::int64_t source_tokens = 0;  // of the T tokens of a microbatch
};

class EncoderDecoderBlock final : public Block {
 public:
  explicit EncoderDecoderBlock(const EncoderDecoderBlockOptions& options);
  EncoderDecoderBlock(const EncoderDecoderBlock&) = delete;  // activations refer to it
  EncoderDecoderBlock& operator=(const EncoderDecoderBlock&) = delete;

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return input_; }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  // din may be dout.
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  // A norm and what follows it: attention, cross-attention, mlp; nothing after the final norm.
  struct Step {
    std::string name;  // "encoder.0.attention"
    Norm norm;
    int sum = -1;                 // the stream before it; of the first the input of the block
    int normed = -1, stats = -1;  // of the norm
    int branch = -1;              // what is added to the stream; of the last it is not kept
  };
  struct Rows {
    TensorView mine, other;  // of a stream
  };
  RowPart part() const { return options_.cross ? RowPart::kTarget : RowPart::kSource; }
  Rows split(const Pass& pass, TensorView stream) const;
  std::size_t branches() const { return steps_.size() - (options_.final_norm.empty() ? 0 : 1); }

  TensorView before(Pass& pass, Saved& saved, std::size_t step) const;
  void make_norm(Pass& pass, Saved& saved, std::size_t step) const;
  void make_branch(Pass& pass, Saved& saved, std::size_t step) const;
  void make_sum(Pass& pass, Saved& saved, std::size_t step) const;
  void make_memory(Pass& pass, Saved& saved) const;

  bool is_cross(std::size_t step) const { return cross_ && step == 1; }
  const Sublayer& sublayer(std::size_t step) const;  // of steps that are not cross-attention
  int last_of(std::size_t step) const;
  void run(Pass& pass, Saved& saved, std::size_t step, TensorView y) const;
  DropoutRows dropout(const Pass& pass, std::size_t step) const;

  EncoderDecoderBlockOptions options_;
  std::unique_ptr<Sublayer> attention_;
  std::optional<CrossAttention> cross_;
  std::unique_ptr<Sublayer> mlp_;
  std::vector<Step> steps_;
  int input_ = -1, memory_ = -1;  // memory: the encoder's output in compute precision
};

}  // namespace stoa::nn
