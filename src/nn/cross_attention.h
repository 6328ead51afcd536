// Attention of a decoder's tokens to the output of an encoder (Vaswani et al. 2017, section 3.2.3): queries
// of the target, keys and values of the source, whose lengths differ; every query sees all keys of its
// sample. During generation the keys and values of a source are kept in the pass's cache: the pass that reads
// it puts them there, next to those of its target's tokens.
#pragma once

#include "nn/linear.h"
#include "nn/sublayer.h"
#include "ops/attention.h"

namespace stoa::nn {

struct CrossAttentionOptions {
  std::string name;        // "decoder.0.cross_attention"
  std::int64_t layer = 0;  // global number: index of the KV cache
  std::int64_t hidden = 0, heads = 0, head_size = 0;
  bool bias = true;
  double scale = 1;  // of q·k
  float dropout = 0;
  double deviation = 0.02, output_deviation = 0.02;
  parallel::TensorPlace place;  // heads are split among the ranks of a tensor-parallel group
};

class CrossAttention {
 public:
  explicit CrossAttention(const CrossAttentionOptions& options);

  // `input`: normalised stream of the target; `memory`: output of the encoder; both activations in compute
  // precision.
  void declare(ParamList& params, ActivationTable& table, std::int64_t source_tokens,
               std::int64_t target_tokens, Precision precision, int input, int memory);
  int last() const { return context_; }
  int output_gradient() const { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const;
  // As Sublayer::backward; `dmemory`: gradient with respect to `memory`.
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx,
                TensorView dmemory) const;
  void backward_weight(Pass& pass, Saved& saved) const;

 private:
  struct PackedKeyValues {
    TensorView k, v;  // [T, heads, d], rows strided
  };
  TensorView by_head(TensorView rows) const {
    return rows.reshape({rows.rows(), heads_, options_.head_size});
  }
  PackedKeyValues split(TensorView kv) const;
  // Keys and values of the encoder's output; in generation those in the cache, behind what this pass adds.
  PackedKeyValues key_values(Pass& pass, Saved& saved) const;
  void make_q(Pass& pass, Saved& saved) const;
  void make_kv(Pass& pass, Saved& saved) const;
  void make_context(Pass& pass, Saved& saved) const;
  ops::AttentionOptions core(const Pass& pass) const;

  CrossAttentionOptions options_;
  parallel::HeadPart part_;
  const std::int64_t heads_;  // of this rank
  Linear q_linear_, kv_linear_, output_;
  int input_ = -1, memory_ = -1, q_ = -1, kv_ = -1, context_ = -1, lse_ = -1;
  int output_gradient_ = -1, q_gradient_ = -1, kv_gradient_ = -1;
};

}  // namespace stoa::nn
