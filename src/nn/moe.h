// Mixture of experts in place of a feed-forward layer: a router, k of E experts per token, and shared experts
// that see every token (Mixtral 2401.04088; DeepSeekMoE 2401.06066). Without a capacity nothing is dropped: a
// microbatch of T tokens has T k rows among its experts, whatever the router decides. With one, an expert
// takes at most `capacity` assignments per sequence (not per microbatch: results must not depend on the
// layout) and the others are dropped: such a token gets only the output of its other experts.
//
// The experts may be distributed over ranks (nn/expert_exchange.h). The first part of a rank's rows is kept
// as activations; what comes in further parts is computed in scratch memory, once more in backward. Every
// rank routes its own tokens: in a tensor-parallel group, its rows of the residual stream or, if all ranks
// hold all rows, the part of the rows that is assigned to it. So the router of each rank sees only some of
// the tokens, and its gradient is summed over these ranks.
//
// In inference over ranks every rank has all tokens and routes them all; each computes the rows of its own
// experts, and the outputs are added up.
//
// An expert's output bias is scaled by the router weight of the row to which it is added, and contributes to
// that weight's gradient.
//
// The router and its weight are in the accumulation type, so that choices do not depend on the rounding of
// logits. A row is multiplied by its router weight before the down projection, so that the experts' outputs
// need not be kept for the router's gradient.
#pragma once

#include <memory>

#include "nn/expert_exchange.h"
#include "nn/grouped_linear.h"
#include "nn/moe_options.h"
#include "nn/sublayer.h"

namespace stoa::nn {

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
  // A parameter of the router: its gradient is summed over the ranks of a tensor-parallel group.
  ParamSpec router_spec(const char* suffix, Shape shape, InitKind init) const;
  void make_logits(Pass& pass, Saved& saved) const;
  void make_choice(Pass& pass, Saved& saved) const;
  void make_kept(Pass& pass, Saved& saved) const;
  void make_gathered(Pass& pass, Saved& saved) const;
  void make_raw(Pass& pass, Saved& saved) const;
  void make_scaled(Pass& pass, Saved& saved) const;
  // What the experts have of a part of their rows.
  struct Rows {
    Arrivals arrivals;
    TensorView gathered, raw, scaled;
  };
  Rows kept_rows(Pass& pass, Saved& saved) const;            // the first part: activations
  Rows make_rows(Pass& pass, Saved& saved, int part) const;  // a later one: in scratch memory
  void make_raw(Pass& pass, const Arrivals& arrivals, TensorView gathered, TensorView raw) const;
  void make_scaled(Pass& pass, Saved& saved, const Arrivals& arrivals, TensorView raw,
                   TensorView scaled) const;
  // What the backward pass of a layer computes of several parts, one after the other.
  struct Sums {
    int parts = 1;
    bool biases = true, weights = true;  // which gradients of the experts
    GroupedLinear::Carry up, down;       // of several parts
  };
  GradientPart gradient_part(Pass& pass, Saved& saved, const Arrivals& arrivals) const;
  Sums begin_sums(Pass& pass, Saved& saved, bool biases, bool weights) const;
  void raw_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums, TensorView dy,
                    TensorView draw, TensorView dweights) const;
  void down_weight_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums,
                            TensorView drows) const;
  void up_weight_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums,
                          TensorView draw) const;
  void router_backward(Pass& pass, Saved& saved, TensorView dweights, TensorView dlogits) const;
  void shared_backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const;
  void add_excess(Pass& pass, TensorView experts) const;
  void router_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const;
  // The sequences to which the tokens routed by this rank belong.
  ops::TokenSequences sequences(const Pass& pass) const;
  // Sums `part` over the ranks that hold parts of these sequences.
  void add_over_sequences(Pass& pass, TensorView part) const;
  // Every rank of the tensor-parallel group holds the whole stream, and routes a part of its rows.
  bool stream_is_whole() const { return options_.place.split() && !options_.place.sequence && !replicated(); }
  bool replicated() const { return options_.experts_place.replicated && options_.experts_place.split(); }
  // The rows that this rank routes, among those that it holds of the stream.
  parallel::Part own_rows(std::int64_t stream_rows) const;
  TensorView own(TensorView stream) const;
  void zero_others(Pass& pass, TensorView stream) const;  // before own(stream) is written
  void add_others(Pass& pass, TensorView stream) const;   // afterwards
  // Adds what the ranks' experts give of the tokens that all of them have: `all` becomes y.
  void add_experts(Pass& pass, Saved& saved, TensorView all, TensorView y) const;

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
