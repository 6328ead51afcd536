// The low-rank branches of a linear layer (nn/adapter_policy.h).
//
// They are computed from what the layer itself reads and where it writes, so they need no communication and
// no saved activation: B A x joins the partial sum of a layer that is split by inputs before that is reduced,
// and the inner product A x is recomputed in the backward pass. Within a tensor-parallel group:
//   split by outputs: every rank has all of A, whose gradient it knows in part, and its outputs' rows of B;
//   split by inputs: every rank has its inputs' columns of A, and all of B, whose gradient it knows in part.
// Initial values and dropout masks are functions of canonical elements, whatever the split.
#pragma once

#include "nn/adapter_policy.h"
#include "nn/linear_options.h"
#include "nn/module.h"

namespace stoa::nn {

class LowRank {
 public:
  // `options`: of the layer, with the rows and columns that this rank holds.
  void declare(ParamList& params, const LinearOptions& options);
  explicit operator bool() const { return !branches_.empty(); }

  // y [T, N] += the branches of x [T, K].
  void forward(Pass& pass, TensorView x, TensorView y) const;
  // The gradients of A x, by run of branches; in scratch of the current frame.
  using Inner = std::vector<TensorView>;
  Inner inner_gradient(Pass& pass, TensorView dy) const;
  // dx [T, K] += their part of it.
  void backward_input(Pass& pass, const Inner& inner, TensorView dx) const;
  // Into the main gradients.
  void backward_weight(Pass& pass, const Inner& inner, TensorView x, TensorView dy) const;
  // w [N, K] += scale B A of every branch.
  void add_to(Pass& pass, TensorView w) const;

 private:
  struct Branch {
    std::int64_t row = 0, rank = 0;       // rows of A
    std::int64_t begin = 0, outputs = 0;  // columns of y
    Param b;
  };
  // Consecutive branches with one scale: one product with A.
  struct Run {
    std::size_t first = 0, count = 0;  // branches
    std::int64_t row = 0, rank = 0;    // rows of A
    double scale = 1;
  };
  ParamSpec a_spec(const LinearOptions& options, const std::vector<LowRankBranch>& branches) const;
  ParamSpec b_spec(const LinearOptions& options, const LowRankBranch& branch, std::size_t first) const;
  TensorView rows_of_a(Pass& pass, const Run& run) const;
  static TensorView inner_columns(TensorView inner, const Run& run, const Branch& branch) {
    return inner.columns(branch.row - run.row, branch.rank);
  }
  // scale A x of a run, in scratch.
  TensorView inner(Pass& pass, const Run& run, TensorView x) const;
  static void scale(Pass& pass, const Run& run, TensorView inner);
  // The branches' input: x itself without dropout, otherwise in scratch.
  TensorView dropped(Pass& pass, TensorView x) const;
  // x or its gradient with the mask of dropout, in scratch.
  TensorView masked(Pass& pass, TensorView x) const;

  std::string name_;
  parallel::Part columns_;  // inputs held
  std::int64_t inputs_ = 0;
  parallel::TensorPlace rows_place_;  // how the rows of x are split
  bool covers_all_ = false;           // every output belongs to a branch
  float dropout_ = 0;
  std::vector<Branch> branches_;
  std::vector<Run> runs_;
  Param a_;
};

}  // namespace stoa::nn
