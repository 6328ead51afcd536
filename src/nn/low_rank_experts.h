// The low-rank branches of a rank's experts (nn/low_rank.h): A and B are matrices per expert, one below the
// other, as those of the layer itself (nn/grouped_linear.h).
#pragma once

#include "nn/adapter_policy.h"
#include "nn/grouped_gradient.h"
#include "nn/module.h"
#include "parallel/expert_place.h"

namespace stoa::nn {

// What a layer tells of itself.
struct ExpertMatrices {
  std::string layer;               // "layers.0.moe"
  std::vector<std::string> parts;  // of an expert's matrix, stacked: "gate", "up"
  bool narrows = false;            // its inputs are split among the parts of an expert, else its outputs
  parallel::Part experts;          // held
  parallel::Part columns;          // held of the inner width
  std::int64_t inputs = 0, outputs = 0;            // canonical, of a part
  std::int64_t held_inputs = 0, held_outputs = 0;  // likewise on this rank
  parallel::ExpertPlace place;
};

class LowRankExperts {
 public:
  // ConfigError: dropout, whose masks would depend on the order of an expert's rows.
  void declare(ParamList& params, const ExpertMatrices& matrices);
  explicit operator bool() const { return !branches_.empty(); }

  // y [R, N] += the branches of x [R, K]. `sorted`: the expert of each row.
  void forward(Pass& pass, TensorView x, TensorView sorted, TensorView y) const;
  // dx [R, K] += their part of it.
  void backward_input(Pass& pass, TensorView dy, TensorView sorted, TensorView dx) const;
  // Into the main gradients.
  void backward_weight(Pass& pass, const GroupedRows& rows) const;
  // Instead, for rows in parts (nn/grouped_gradient.h). A part's inner products are of its rows alone.
  std::vector<TensorView> carry(Pass& pass) const;  // of A and B of every branch
  void add_weight_gradient(Pass& pass, const GroupedRows& rows, const GradientPart& part,
                           const std::vector<TensorView>& carry) const;
  void end_weight_gradient(Pass& pass) const;

 private:
  struct Branch {
    std::int64_t rank = 0;
    double scale = 1;
    std::int64_t begin = 0, outputs = 0;  // columns of y
    Param a, b;
  };
  ParamSpec a_spec(const ExpertMatrices& matrices, const std::vector<LowRankBranch>& by_expert) const;
  ParamSpec b_spec(const ExpertMatrices& matrices, const std::vector<LowRankBranch>& by_expert) const;
  // Zeros in scratch: rows of nobody are not written by products.
  static TensorView zeros(Pass& pass, DType type, Shape shape);
  // scale A x, and the gradient of A x.
  static TensorView inner(Pass& pass, const Branch& branch, TensorView x, TensorView sorted);
  TensorView inner_gradient(Pass& pass, const Branch& branch, TensorView dy, TensorView sorted) const;
  // Calls body(parameter, rows, its number) for every matrix that is trained; its rows are in scratch.
  template <class Body>
  void products(Pass& pass, const GroupedRows& rows, const Body& body) const;
  // The branch's columns of dy, one row after the other.
  TensorView columns(Pass& pass, const Branch& branch, TensorView dy) const;

  std::int64_t outputs_ = 0;  // columns of y
  std::vector<Branch> branches_;
};

}  // namespace stoa::nn
