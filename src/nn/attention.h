// Self-attention: fused q, k, v projection; norm of q and k (optional); rotary embedding (optional); core
// attention; output gate (optional); output projection. With a KV cache in the pass, new keys and values are
// appended and queries attend to the cache.
#pragma once

#include <optional>

#include "nn/key_prefix.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/relative_bias.h"
#include "nn/sinks.h"
#include "nn/sublayer.h"
#include "ops/attention.h"

namespace stoa::nn {

// Sizes of multi-head latent attention (nn/latent_attention.h). A head of queries and keys has `rotated` +
// `own` columns; a head of values has `value`, which must not be larger.
struct LatentSizes {
  std::int64_t query_rank = 0;  // of the latent queries; 0: queries are projected from the stream
  std::int64_t rank = 0;        // of the latent keys and values
  std::int64_t rotated = 0, own = 0, value = 0;
};

// Sizes of linear attention by the gated delta rule (nn/delta_attention.h).
struct DeltaSizes {
  std::int64_t key_heads = 0, value_heads = 0;  // the latter a multiple of the former
  std::int64_t key_size = 0, value_size = 0;    // columns of a head
  std::int64_t taps = 0;                        // of the convolution
  double epsilon = 1e-6;                        // of the output norm
};

struct SelfAttentionOptions {
  std::string name;        // "layers.0.attention"
  std::int64_t layer = 0;  // global number: index of the KV cache
  std::int64_t hidden = 0, heads = 0, groups = 0, head_size = 0;
  std::optional<LatentSizes> latent;     // keys and values are computed from a latent vector
  std::optional<DeltaSizes> delta = {};  // linear attention
  // The output is multiplied by the sigmoid of a projection of the input (Qwen3-Next; 2505.06708).
  bool output_gate = false;
  bool bias = true, output_bias = true;
  std::optional<NormOptions> qk_norm;
  bool causal = true;          // a query sees no later keys
  bool qk_norm_whole = false;  // over all heads of a token together (OLMo 2); false: over each head
  bool qk_norm_after_rope = false;
  int rope_table = -1;  // index in Pass::constants; -1: no rotary embedding
  // Index in Pass::constants of a bias of scores by distance and head; -1: none. Causal: nn/alibi.h.
  // Otherwise nn/window_bias.h, with equally many rows before and after distance 0.
  int distance_table = -1;
  std::int64_t window = 0;      // keys visible to a query, itself included; 0: all
  std::optional<double> scale;  // of scores; none: 1 / sqrt(head_size)
  double softcap = 0;           // of scores; 0: none
  std::optional<RelativeBiasOptions> relative_bias = {};
  bool sinks = false;  // a trained logit per head in every query's softmax (ops/attention_sink.h)
  float dropout = 0;
  double deviation = 0.02, output_deviation = 0.02;
  parallel::TensorPlace place;  // heads are split among the ranks of a tensor-parallel group
  // Where a prefix of keys is trained: the first of its two constants (nn/key_prefix.h), and the id of the
  // first virtual token.
  int prefix_constants = -1;
  std::int64_t vocabulary = 0;
};

class SelfAttention final : public Sublayer {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return options_.output_gate ? gated_ : context_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  struct Heads {
    TensorView q, k, v;  // [T, heads, d], rows strided
  };
  // Views of q, k and v in a [T, (heads + 2 groups) d] matrix.
  Heads split(TensorView qkv) const;
  // q, k, v in the form that core attention needs.
  Heads core_inputs(Pass& pass, Saved& saved) const;
  void make_qkv(Pass& pass, Saved& saved) const;
  void make_qk(Pass& pass, Saved& saved) const;
  void make_context(Pass& pass, Saved& saved) const;
  void make_gated(Pass& pass, Saved& saved) const;
  // The gate's columns of a fused projection, or of its gradient.
  TensorView gate(TensorView qkv) const;
  // [gate | context], in scratch.
  TensorView gate_input(Pass& pass, TensorView qkv, TensorView context) const;
  // [T, heads, d] as the rows that q/k norm normalises separately, and their number per token.
  TensorView norm_rows(TensorView heads) const;
  std::int64_t norms(std::int64_t heads) const { return options_.qk_norm_whole ? 1 : heads; }
  // One of the norms of q and k: its heads on this rank, and whether this rank holds their first copy.
  struct HeadNorm {
    const Norm& norm;
    parallel::Part heads;
    std::int64_t total;  // heads of all ranks
    bool first_copy;     // among the ranks that hold these heads
  };
  HeadNorm q_norm() const { return {*q_norm_, part_.heads, options_.heads, true}; }
  HeadNorm k_norm() const { return {*k_norm_, part_.groups, options_.groups, part_.first_copy}; }
  // x -> y, dy -> dx: [T, heads, d]. For a norm over all heads, every rank gathers those of all ranks.
  void norm_forward(Pass& pass, const HeadNorm& norm, TensorView x, TensorView y, TensorView stats) const;
  void norm_backward(Pass& pass, const HeadNorm& norm, TensorView x, TensorView stats, TensorView dy,
                     TensorView dx) const;
  bool norms_over_ranks() const { return options_.qk_norm_whole && options_.place.split(); }
  void rotate(Pass& pass, TensorView x, bool inverse) const;
  // The input of the norms of q and k: the projections, or a rotated copy of them in scratch.
  TensorView norm_input(Pass& pass, TensorView projected) const;
  ops::AttentionOptions core(const Pass& pass) const;
  // The sinks of this rank's heads, or none; `training`: with their gradient.
  Sinks sinks(Pass& pass, bool training) const;
  void declare_sinks(ParamList& params);
  // This rank's heads of distance_table, or none.
  TensorView distance_bias(const Pass& pass) const;
  Columns shown(parallel::Part heads, std::int64_t total) const {
    return {heads.begin * options_.head_size, total * options_.head_size};
  }

  SelfAttentionOptions options_;
  parallel::HeadPart part_;
  const std::int64_t heads_, groups_;  // of this rank
  Linear qkv_linear_, output_;
  std::optional<Norm> q_norm_, k_norm_;
  std::optional<RelativeBias> relative_bias_;
  Param sinks_;
  KeyPrefix prefix_;
  int input_ = -1, qkv_ = -1, qk_ = -1, q_stats_ = -1, k_stats_ = -1, context_ = -1, lse_ = -1,
      gated_ = -1;                                // activations
  int output_gradient_ = -1, qkv_gradient_ = -1;  // stash
};

}  // namespace stoa::nn
