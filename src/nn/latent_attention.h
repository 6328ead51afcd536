// Multi-head latent attention (DeepSeek-V2, 2405.04434, section 2.1): keys and values of all heads are
// computed from one normed latent vector per token; the rotary positions are in a part of every query and in
// a key that all heads share.
//
// A head is [rotated | own] in memory; in files own comes first and the members of rotated pairs are
// adjacent. Core attention has a single head size, so values are padded with zeros to the size of keys.
//
// Within a tensor-parallel group every rank computes whole latents, for its rows of the stream; they are
// gathered where the heads, which are split, are computed from them.
#pragma once

#include <optional>

#include "nn/attention.h"

namespace stoa::nn {

class LatentAttention final : public Sublayer {
 public:
  // `options.latent` must be set; head_size is the sum of the parts of a head, and groups are heads.
  explicit LatentAttention(const SelfAttentionOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return context_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  // A latent vector: its columns in the projection of the stream, and its norm.
  struct Latent {
    std::int64_t begin, rank;
    Norm norm;
    int normed = -1, stats = -1;  // activations
  };
  // A projection that is split by heads: queries, or keys and values together.
  struct Heads {
    Linear linear;
    int made = -1;      // activation [T, heads of this rank * size]
    int gradient = -1;  // stash
  };
  struct Core {
    TensorView q, k, v;  // [T, heads of this rank, head size]
  };
  std::int64_t kv_size() const { return latent_.own + latent_.value; }
  TensorView by_head(TensorView x, std::int64_t size) const {
    return x.reshape({x.rows(), heads_.count, size});
  }
  int query_input() const { return query_latent_ ? query_latent_->normed : input_; }

  void declare(Latent& latent, const char* name, ParamList& params, ActivationTable& table, std::int64_t rows,
               Precision precision);
  void declare(Heads& heads, const char* name, void (LatentAttention::*make)(Pass&, Saved&) const,
               ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision);
  // The key that all heads share, in the projection of the stream: [rows, rotated].
  TensorView key_columns(TensorView projected) const;
  void make_projected(Pass& pass, Saved& saved) const;
  void make_normed(const Latent& latent, Pass& pass, Saved& saved) const;
  void make_key(Pass& pass, Saved& saved) const;
  void make_queries(Pass& pass, Saved& saved) const;
  void make_keys_values(Pass& pass, Saved& saved) const;
  void make_context(Pass& pass, Saved& saved) const;
  // Attention with a cache, which holds latents: the projection to keys is applied to the queries instead,
  // and the projection to values to the weighted sum of latents.
  void attend_latents(Pass& pass, Saved& saved, TensorView context) const;
  // From activations already computed; k and v are on the scratch stack.
  Core core_inputs(Pass& pass, Saved& saved) const;
  // The values within padded heads, a row per head; and a context in the same form.
  TensorView values_of(TensorView heads) const;
  TensorView value_rows(TensorView context) const;
  // dy -> gradients of queries, of keys and values, and of the shared key's columns (for all heads).
  void core_backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dq, TensorView dkv,
                     TensorView dkey) const;
  // Writes to the latent's columns of dprojected.
  void latent_backward(const Latent& latent, Pass& pass, Saved& saved, TensorView dnormed,
                       TensorView dprojected) const;
  void rotate(Pass& pass, TensorView heads, bool inverse) const;
  ops::AttentionOptions core(const Pass& pass) const;

  SelfAttentionOptions options_;
  LatentSizes latent_;
  parallel::Part heads_;  // of this rank
  Linear down_;           // [latent of queries | latent of keys and values | key of all heads] of the stream
  std::optional<Latent> query_latent_;
  Latent kv_latent_;
  Heads queries_, keys_values_;
  Linear output_;
  int input_ = -1, projected_ = -1, key_ = -1, context_ = -1, lse_ = -1;  // activations
  int output_gradient_ = -1, projected_gradient_ = -1;                    // stash
};

}  // namespace stoa::nn
