// Sends tokens to the ranks that hold their experts, and results back (GShard, 2006.16668, section 3.2;
// nothing is dropped here, but assignments to expert -1 are not sent).
//
// A rank copies its tokens' rows once for every member of Group::kExpert that holds a part of a chosen
// expert, grouped by member. The members first tell each other how many rows they send for each
// expert, then exchange the rows (all-to-all with uneven counts) and group them by expert. Results are
// sent back the same way and added up per token: the parts of a split expert give partial sums. A
// rank's own rows are not sent. With a single member nothing is communicated: the rows are only
// grouped by expert.
//
// The number of rows that arrive is known only during the step. Memory is declared for the maximum: every
// token of the group chooses as many of this rank's experts as it can, or as many as a limit permits.
// Operations without a workspace process only the rows that arrived.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "nn/module.h"
#include "ops/moe.h"
#include "parallel/expert_place.h"

namespace stoa::nn {

class ExpertExchange {
 public:
  // `experts`: of all members; a token chooses `chosen` of them.
  ExpertExchange(std::string name, std::int64_t experts, std::int64_t chosen,
                 const parallel::ExpertPlace& place);

  // For `tokens` on this rank, at most `most_tokens` on any. `choice`: the activation with the chosen experts
  // [T, k] int32; `weights`: with their weights [T, k] of type `sum`. `limit`: choices may be -1, and an
  // expert gets at most this many rows of the group's tokens.
  void declare(ActivationTable& table, std::int64_t tokens, std::int64_t most_tokens, DType sum, int choice,
               int weights, std::optional<std::int64_t> limit = {});

  std::int64_t rows() const { return rows_; }  // F: most rows of this rank's experts
  // Whether the host knows how many of `rows` arrived. It waits for a GPU's counts only if ranks exchange
  // rows, to post the exchange; otherwise came() returns all F rows, including unused ones.
  bool host_knows_count(const TensorView& rows) const {
    return !limited_ || place_.split() || rows.device != DeviceKind::kCuda;
  }
  // Starts a backward pass, possibly of a different microbatch. (Computing the choice starts a forward pass.)
  void begin_backward() const { traffic_.reset(); }
  // Computes what later calls read, before the caller opens a frame of temporaries.
  void prepare(Pass& pass, Saved& saved) const;
  TensorView sorted_experts(Pass& pass, Saved& saved) const { return saved.get(pass, sorted_); }  // [F]
  // The first of F rows: those that arrived.
  TensorView came(Pass& pass, Saved& saved, TensorView rows) const;

  // x [T, D] of the tokens -> rows [F, D] of the experts.
  void send(Pass& pass, Saved& saved, TensorView x, TensorView rows) const;
  // y [T, D] = for every token the sum of its rows, in the order of its choices and of an expert's parts.
  void bring_back(Pass& pass, Saved& saved, TensorView rows, TensorView y) const;

  // The router weights of the rows that arrived: row i has weights[order[i]].
  struct Weights {
    TensorView order, weights;
  };
  Weights weights(Pass& pass, Saved& saved) const;
  // dweights [T, k] from what `compute` writes: gradients in the form of Weights::weights.
  void weight_gradient(Pass& pass, Saved& saved, TensorView dweights,
                       const std::function<void(TensorView)>& compute) const;

 private:
  // Rows may be sent away or unused: the number that arrives is only known during the step.
  bool counted() const { return place_.split() || limited_; }
  // Rows between this rank and each member; `sent` excludes the rank's own rows.
  struct Traffic {
    std::vector<std::int64_t> sends, comes;
    std::int64_t own = 0, sent = 0, arrived = 0;
    std::int64_t came() const { return arrived + own; }
  };
  void make_groups(Pass& pass, Saved& saved) const;
  void make_arrivals(Pass& pass, Saved& saved) const;
  void make_weights(Pass& pass, Saved& saved) const;
  const Traffic& traffic(Pass& pass, Saved& saved) const;
  Traffic find_traffic(Pass& pass, TensorView leaving, TensorView coming, std::int64_t most,
                       std::int64_t copied) const;
  // A buffer [F + T k C, D]: first the rows that arrive, then this rank's own, then those that it sends.
  TensorView buffer(Pass& pass, DType type, std::int64_t columns) const;
  void scatter(Pass& pass, Saved& saved, TensorView x, TensorView buffer) const;
  void gather(Pass& pass, Saved& saved, TensorView buffer, TensorView y) const;

  std::string name_;
  std::int64_t experts_, chosen_;
  parallel::ExpertPlace place_;
  bool limited_ = false;
  ops::ExpertMembers members_;
  std::int64_t copied_ = 0;  // T k C: copies of the rows of this rank's tokens
  std::int64_t rows_ = 0;
  // For the current microbatch; cached, because on a GPU the host must wait for the counts.
  mutable std::optional<Traffic> traffic_;
  // Activations.
  int choice_ = -1, weights_ = -1, order_ = -1, target_ = -1, sorted_ = -1;
  int leaving_ = -1, coming_ = -1, arrival_order_ = -1, arrival_place_ = -1, arrived_weights_ = -1;
};

}  // namespace stoa::nn
