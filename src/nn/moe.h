// Mixture of experts in place of a feed-forward layer: a router, k of E experts per token, and shared experts
// that see every token (Mixtral 2401.04088; DeepSeekMoE 2401.06066). Without a capacity nothing is dropped: a
// microbatch of T tokens has T k rows among its experts, whatever the router decides. With one, an expert
// takes so many assignments of each sequence - not of a microbatch, so that no layout shows -, and the rest
// go nowhere: such a token goes on with what its other experts add.
//
// The experts may be spread over ranks (nn/expert_exchange.h). Every rank routes tokens of its own: among the
// ranks of a tensor-parallel group, those rows of the residual stream that it holds or, where all hold all
// rows, its part of them. So a router sees some of the tokens on each of them, and its gradient is summed
// over them.
//
// An expert's output bias is scaled by the router weight of a row where it is added, and has its part in that
// weight's gradient.
//
// The router runs in the accumulation type, and its weight is held in it: choices must not depend on the
// rounding of logits. A row is multiplied by its router weight before the down projection, so that the
// experts' outputs are not kept for the router's gradient.
#pragma once

#include <memory>

#include "nn/expert_exchange.h"
#include "nn/grouped_linear.h"
#include "nn/mlp.h"

namespace stoa::nn {

struct MoeOptions {
  std::string name;  // "layers.0.moe"
  std::int64_t hidden = 0, ffn = 0;
  std::int64_t experts = 0, chosen = 0;
  ops::RouterOptions router;
  double bias_rate = 0;       // the choice has a bias that is moved by so much per step; 0: it has none
  std::int64_t capacity = 0;  // most assignments of a sequence to an expert; 0: no limit
  ops::DropPolicy drop = ops::DropPolicy::kWeight;
  std::int64_t length = 0;      // tokens of a sequence, where there is a capacity
  double balance = 0, z = 0;    // coefficients of the router's losses (ops::RouterBackward)
  std::int64_t shared_ffn = 0;  // width of the shared experts together; 0: none
  bool shared_gate = false;     // what they give is times a gate of the token (nn/gated_sublayer.h)
  ops::ActivationKind activation = ops::ActivationKind::kSilu;
  bool gated = true;
  ops::ActivationClamp clamp = {};  // of the clamped swiglu
  bool bias = false;                // of the router, and of the experts' layers
  double deviation = 0.02, output_deviation = 0.02;
  parallel::TensorPlace place;          // of the stream, and of the shared experts
  parallel::ExpertPlace experts_place;  // of the others
};

class Moe final : public Sublayer {
 public:
  explicit Moe(const MoeOptions& options);

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return scaled_; }
  int output_gradient() const override { return output_gradient_; }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override;

 private:
  void declare_params(ParamList& params);
  // Of the router: its gradient is summed over the ranks of a tensor-parallel group.
  ParamSpec router_spec(const char* suffix, Shape shape, InitKind init) const;
  void make_logits(Pass& pass, Saved& saved) const;
  void make_choice(Pass& pass, Saved& saved) const;
  void make_kept(Pass& pass, Saved& saved) const;
  void make_gathered(Pass& pass, Saved& saved) const;
  void make_raw(Pass& pass, Saved& saved) const;
  void make_scaled(Pass& pass, Saved& saved) const;
  void router_backward(Pass& pass, Saved& saved, TensorView dweights, TensorView dlogits) const;
  void shared_backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const;
  void add_excess(Pass& pass, TensorView experts) const;
  void router_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const;
  // Which sequences the tokens belong to that this rank routes.
  ops::TokenSequences sequences(const Pass& pass) const;
  // What each of the ranks that hold parts of these sequences knows of its own tokens.
  void add_over_sequences(Pass& pass, TensorView part) const;
  // All ranks of the tensor-parallel group hold the whole stream.
  bool stream_is_whole() const { return options_.place.split() && !options_.place.sequence; }
  // The rows that this rank routes, of those of the stream that it holds.
  parallel::Part own_rows(std::int64_t stream_rows) const;
  TensorView own(TensorView stream) const;
  void zero_others(Pass& pass, TensorView stream) const;  // before own(stream) is written
  void add_others(Pass& pass, TensorView stream) const;   // afterwards

  MoeOptions options_;
  parallel::Part columns_;  // held of every expert's inner width
  std::int64_t raw_width_;  // columns of the up projection
  ExpertExchange exchange_;
  Param router_, router_bias_, bias_;
  GroupedLinear up_, down_;
  std::unique_ptr<Sublayer> shared_;
  int input_ = -1, logits_ = -1, experts_ = -1, weights_ = -1, kept_ = -1, gathered_ = -1, raw_ = -1,
      scaled_ = -1;                                                      // activations
  int output_gradient_ = -1, raw_gradient_ = -1, logits_gradient_ = -1;  // stash
};

}  // namespace stoa::nn
