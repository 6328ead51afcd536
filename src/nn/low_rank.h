// The low-rank branches of a linear layer (nn/adapter_policy.h).
//
// They are computed from what the layer itself reads and where it writes, so they need no communication and
// no saved activation: B A x joins the partial sum of a layer that is split by inputs before that is reduced,
// and the inner product A x is recomputed in the backward pass. Within a tensor-parallel group:
//   split by outputs: every rank has all of A, whose gradient it knows in part, and its outputs' rows of B;
//   split by inputs: every rank has its inputs' columns of A, and all of B, whose gradient it knows in part.
// With magnitudes (DoRA) the norms of the rows of W + scale B A are computed from W, A and B wherever they
// are needed: |w|^2 + 2 scale (w A^T) b + scale^2 b (A A^T) b without the matrix itself, summed over the
// ranks in a layer that is split by inputs, the one communication that they need. To the gradients they are
// constants, as in the publication (section 4.3). Initial values and dropout masks are functions of canonical
// elements, whatever the split.
#pragma once

#include "nn/adapter_policy.h"
#include "nn/linear_options.h"
#include "nn/module.h"

namespace stoa::nn {

// Rows of a microbatch that come in pieces, as those of a head do.
struct RowPiece {
  std::int64_t begin = 0;          // of its first row in the microbatch
  bool first = true, last = true;  // of the pieces
};

class LowRank {
 public:
  static constexpr const char* kMagnitude = ".lora_magnitude_vector";  // ends names of magnitudes

  // `options`: of the layer, with the rows and columns that this rank holds.
  void declare(ParamList& params, const LinearOptions& options);
  explicit operator bool() const { return !branches_.empty(); }

  // Whether the branches have magnitudes.
  bool has_magnitudes() const { return has_magnitudes_; }

  // y [T, N] += the branches of x [T, K]; without magnitudes. `begin`: of the first row in the microbatch.
  void forward(Pass& pass, TensorView x, TensorView y, std::int64_t begin = 0) const;
  // With magnitudes: y, which holds W x, becomes what the layer writes. `w`: this rank's part of W [N, K];
  // `bias`: [N] or none.
  void forward_scaled(Pass& pass, TensorView x, TensorView w, TensorView bias, TensorView y) const;

  // What a backward pass needs of dy [T, N], in scratch of the current frame.
  struct Gradient {
    TensorView dy;                  // of what the layer writes
    TensorView sum;                 // of the branches' sum: dy, or scaled
    TensorView base;                // of W x where x has no dropout: one of the two
    std::vector<TensorView> inner;  // of A x, by run of branches
    TensorView inverse_norms;       // [N]; with magnitudes
  };
  // Without branches that of dy alone.
  Gradient gradient(Pass& pass, TensorView w, TensorView dy) const;
  // A product that joins the sums of the layer's own (ops/linear.h), in scratch of the current frame; empty
  // where the branches cannot: with magnitudes, or several scales.
  struct Joined {
    TensorView rows, matrix;
  };
  // That of x [T, K], in training; elsewhere few rows, whose products are streamed, have the same bits as
  // many.
  Joined joined(Pass& pass, TensorView x, std::int64_t outputs) const;
  // That of the gradient; it takes the place of backward_input().
  Joined joined_gradient(Pass& pass, const Gradient& gradient) const;

  // dx [T, K], which holds W^T times the gradient's base, += the branches' part.
  void backward_input(Pass& pass, const Gradient& gradient, TensorView w, TensorView dx,
                      std::int64_t begin = 0) const;
  // Into the main gradients. Pieces: without magnitudes.
  void backward_weight(Pass& pass, const Gradient& gradient, TensorView w, TensorView x,
                       const RowPiece& piece = {}) const;
  // `out` [N, K], which holds W, becomes the matrix that the layer multiplies by, with the branches.
  void add_to(Pass& pass, TensorView w, TensorView out) const;

 private:
  struct Branch {
    std::int64_t row = 0, rank = 0;       // rows of A
    std::int64_t begin = 0, outputs = 0;  // columns of y
    Param b;
    Param magnitude;  // or none
  };
  // Consecutive branches with one scale: one product with A.
  struct Run {
    std::size_t first = 0, count = 0;  // branches
    std::int64_t row = 0, rank = 0;    // rows of A
    double scale = 1;
  };
  ParamSpec a_spec(const LinearOptions& options, const std::vector<LowRankBranch>& branches) const;
  ParamSpec b_spec(const LinearOptions& options, const LowRankBranch& branch) const;
  ParamSpec magnitude_spec(const LinearOptions& options, const LowRankBranch& branch) const;
  TensorView rows_of_a(Pass& pass, const Run& run) const;
  static TensorView inner_columns(TensorView inner, const Run& run, const Branch& branch) {
    return inner.columns(branch.row - run.row, branch.rank);
  }
  // scale A x of a run, in scratch.
  TensorView inner(Pass& pass, const Run& run, TensorView x) const;
  static void scale(Pass& pass, const Run& run, TensorView inner);
  // The branches' input: x itself without dropout, otherwise in scratch.
  TensorView dropped(Pass& pass, TensorView x, std::int64_t begin = 0) const;
  // x or its gradient with the mask of dropout, in scratch.
  TensorView masked(Pass& pass, TensorView x, std::int64_t begin) const;
  bool drops(const Pass& pass) const { return pass.training && dropout_ > 0; }
  // y += the branches of what they read, by `branch` [T, N] in scratch.
  void add_branches(Pass& pass, TensorView input, TensorView branch, TensorView y) const;
  // For magnitudes (low_rank_magnitudes.cc): of every output, 0 or anything where no branch is.
  struct Scales {
    TensorView inverse_norms, factors;  // 1 / norm and m / norm [N], in scratch of the current frame
  };
  Scales scales(Pass& pass, TensorView w) const;
  // y = factors * x + bias by columns, or y +=; columns without a branch have the factor 1.
  void scale_columns(Pass& pass, const Scales& scales, TensorView x, TensorView bias, TensorView y,
                     bool accumulate) const;
  // dx = W^T of what is scaled alone.
  void backward_dropped_base(Pass& pass, const Gradient& gradient, TensorView w, TensorView dx) const;
  void backward_magnitudes(Pass& pass, const Gradient& gradient, TensorView w, TensorView input) const;
  void scale_rows(Pass& pass, TensorView w, TensorView out) const;

  std::string name_;
  parallel::Part columns_;  // inputs held
  std::int64_t inputs_ = 0;
  parallel::TensorPlace rows_place_;  // how the rows of x are split
  bool covers_all_ = false;           // every output belongs to a branch
  bool has_magnitudes_ = false, splits_inputs_ = false;
  std::int64_t outputs_ = 0;
  float dropout_ = 0;
  std::vector<Branch> branches_;
  std::vector<Run> runs_;
  Param a_;
};

}  // namespace stoa::nn
