// Linear attention by the gated delta rule (Yang et al. 2024, 2412.06464, section 3.4; Qwen3-Next): queries,
// keys and values pass through a short convolution, a matrix per value head holds the state
// (ops/gated_delta.h), and what is read from it is normed by head and gated: out(norm(o) * silu(z)). No
// positions; each document begins with an empty state. With a cache in the pass, convolution and state are
// carried over between passes.
//
// Within a tensor-parallel group key heads are split, each with its value heads.
#pragma once

#include "nn/attention.h"

namespace stoa::nn {

class DeltaAttention final : public Sublayer {
 public:
  // `options.delta` must be set; heads and head_size of core attention are ignored.
  explicit DeltaAttention(const SelfAttentionOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return gated_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  // Views of a row of the projection [q | k | v | z | b | a], or of its first three parts.
  struct Heads {
    TensorView q, k, v;  // [T, heads, size], rows strided
  };
  Heads split(TensorView mixed) const;
  TensorView gate(TensorView projected) const;     // z [T, values]
  TensorView writing(TensorView projected) const;  // b [T, value heads]
  TensorView decay(TensorView projected) const;    // a [T, value heads]
  TensorView by_head(TensorView values) const;     // [T, value heads, size]
  std::int64_t convolved() const { return 2 * key_columns() + value_columns(); }
  std::int64_t key_columns() const { return keys_.count * sizes_.key_size; }
  std::int64_t value_columns() const { return values_.count * sizes_.value_size; }

  void declare_params(ParamList& params);
  void make_projected(Pass& pass, Saved& saved) const;
  void make_mixed(Pass& pass, Saved& saved) const;
  void make_read(Pass& pass, Saved& saved) const;
  void make_gated(Pass& pass, Saved& saved) const;
  // [z | norm(o)], the input of the gate, in scratch; `stats` may be none.
  TensorView gate_input(Pass& pass, TensorView projected, TensorView read, TensorView stats) const;
  void core_backward(Pass& pass, Saved& saved, TensorView dread, TensorView dprojected) const;

  SelfAttentionOptions options_;
  DeltaSizes sizes_;
  parallel::Part keys_, values_;  // heads of this rank
  Linear input_linear_, output_;
  Norm norm_;
  Param convolution_, decay_rate_, step_bias_;
  int input_ = -1, projected_ = -1, mixed_ = -1, read_ = -1, stats_ = -1, gated_ = -1;  // activations
  int output_gradient_ = -1, projected_gradient_ = -1;                                  // stash
};

}  // namespace stoa::nn
