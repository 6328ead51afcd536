// The way of tokens to the ranks that hold their experts, and back (GShard, 2006.16668, section 3.2; nothing
// is dropped here: assignments to expert -1 go nowhere).
//
// A rank copies its tokens' rows once for every member of Group::kExpert that holds a part of a chosen
// expert, grouped by member. The members tell each other how many rows come for each expert, then exchange
// the rows (all-to-all with uneven counts) and bring those of an expert together. Results go back the same
// way and are added up per token: the parts of an expert that is split give partial sums. A rank's own rows
// stay where they are. With one member no communication remains: the rows are grouped by expert and that is
// all.
//
// How many rows come is known in the step only. Memory is declared for the most that may: every token of the
// group that chooses as many of this rank's experts as it can, or as many as a limit lets through. Operations
// without a workspace look at the rows that came.
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
  // [T, k] int32; `weights`: with their weights [T, k] of type `sum`. `limit`: some
  // choices may be -1, and at most so many rows of the group's tokens are for one expert.
  void declare(ActivationTable& table, std::int64_t tokens, std::int64_t most_tokens, DType sum, int choice,
               int weights, std::optional<std::int64_t> limit = {});

  std::int64_t rows() const { return rows_; }  // F: most rows of this rank's experts
  // Whether the host knows how many of `rows` came. It waits for a GPU's counts only where rows travel, since
  // it asks for the exchange; otherwise came() gives all F rows, nobody's among them.
  bool host_knows_count(const TensorView& rows) const {
    return !limited_ || place_.split() || rows.device != DeviceKind::kCuda;
  }
  // A backward pass starts, maybe of another microbatch than the last call's. In forward the choice does it.
  void begin_backward() const { traffic_.reset(); }
  // Makes what later calls read, before the caller opens a frame of temporaries.
  void prepare(Pass& pass, Saved& saved) const;
  TensorView sorted_experts(Pass& pass, Saved& saved) const { return saved.get(pass, sorted_); }  // of F rows
  // The first of F rows: those that came.
  TensorView came(Pass& pass, Saved& saved, TensorView rows) const;

  // x [T, D] of the tokens -> rows [F, D] of the experts.
  void send(Pass& pass, Saved& saved, TensorView x, TensorView rows) const;
  // y [T, D] = for every token the sum of its rows, in the order of its choices and of an expert's parts.
  void bring_back(Pass& pass, Saved& saved, TensorView rows, TensorView y) const;

  // The rows that came have weights: row i has weights[order[i]].
  struct Weights {
    TensorView order, weights;
  };
  Weights weights(Pass& pass, Saved& saved) const;
  // dweights [T, k] from what `compute` writes: gradients in the form of Weights::weights.
  void weight_gradient(Pass& pass, Saved& saved, TensorView dweights,
                       const std::function<void(TensorView)>& compute) const;

 private:
  // Rows may leave or be nobody's: how many come is counted in the step.
  bool counted() const { return place_.split() || limited_; }
  // Rows between this rank and each member; what stays is not counted as sent.
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
  // A buffer [F + T k C, D] holds the rows that arrive, then this rank's own, then those that it sends.
  TensorView buffer(Pass& pass, DType type, std::int64_t columns) const;
  void scatter(Pass& pass, Saved& saved, TensorView x, TensorView buffer) const;
  void gather(Pass& pass, Saved& saved, TensorView buffer, TensorView y) const;

  std::string name_;
  std::int64_t experts_, chosen_;
  parallel::ExpertPlace place_;
  bool limited_ = false;
  ops::ExpertMembers members_;
  std::int64_t copied_ = 0;  // T k C: rows that the tokens of this rank make
  std::int64_t rows_ = 0;
  // Of the microbatch at work: found once, since on a GPU the host waits for the counts.
  mutable std::optional<Traffic> traffic_;
  // Activations.
  int choice_ = -1, weights_ = -1, order_ = -1, target_ = -1, sorted_ = -1;
  int leaving_ = -1, coming_ = -1, arrival_order_ = -1, arrival_place_ = -1, arrived_weights_ = -1;
};

}  // namespace stoa::nn
