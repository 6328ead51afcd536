// The linear layers of a rank's experts, y = x W_e^T: rows of x are sorted by expert (ops/moe.h), and one
// matrix holds the matrices of all experts of this rank, one below the other. A rank holds a part of each
// expert's inner columns: rows of the matrices that widen, columns of those that narrow.
//
// In a pass with `fp8` its GEMMs are in FP8. Each expert is a linear layer of its own: its rows, its matrix
// and its gradients have separate scales, as the GEMMs of Transformer Engine's GroupedLinear do, and, with
// delayed scaling, separate histories. So an expert without tokens keeps its scales, and results do not
// depend on which ranks hold which experts.
#pragma once

#include "nn/fp8.h"
#include "nn/grouped_gradient.h"
#include "nn/low_rank_experts.h"
#include "nn/module.h"
#include "parallel/expert_place.h"

namespace stoa::nn {

struct GroupedLinearOptions {
  std::string layer;                              // "layers.0.moe"
  std::string name;                               // "gate_up"
  std::vector<std::string> parts;                 // the parts of an expert's matrix, stacked: "gate", "up"
  bool narrows = false;                           // inner width to hidden width; else the other way
  std::int64_t experts = 0, hidden = 0, ffn = 0;  // canonical
  bool bias = false;                              // one of each part of each expert
  double deviation = 0.02;                        // of the initial weights
  parallel::ExpertPlace place;
};

// Router weights that scale the bias: row i has weights[order[i]]. None: 1.
struct RowWeights {
  TensorView order = {}, weights = {};
};

class GroupedLinear {
 public:
  explicit GroupedLinear(GroupedLinearOptions options);

  void declare(ParamList& params);

  // `sorted`: int32, the expert of each row; the last rows may be -1: neither read nor written.
  void forward(Pass& pass, TensorView x, TensorView sorted, TensorView y,
               const RowWeights& weights = {}) const;  // [R, K] -> [R, N]
  void backward_input(Pass& pass, TensorView dy, TensorView sorted, TensorView dx) const;
  void backward_weight(Pass& pass, TensorView x, TensorView dy, TensorView sorted) const;
  // Instead, for rows in parts: their gradients one part after the other (nn/grouped_gradient.h), then what
  // backward_weight() says when it is done. `carry`: scratch memory for all of them.
  struct Carry {
    TensorView weight;
    std::vector<TensorView> branches;
  };
  Carry carry(Pass& pass) const;
  void add_weight_gradient(Pass& pass, const GroupedRows& rows, const GradientPart& part,
                           const Carry& carry) const;
  void end_weight_gradient(Pass& pass) const;
  // For layers with bias: its gradient, and what it adds to that of the router weights, if `dweights` [as
  // weights.weights] is given (of the ranks that share a split expert, only the first adds this). Rows may
  // come in parts: the gradient of the first begins, that of the last ends it.
  void backward_bias(Pass& pass, TensorView dy, TensorView sorted, const RowWeights& weights = {},
                     TensorView dweights = {}, bool begin = true, bool end = true) const;
  bool has_bias() const { return options_.bias; }

 private:
  struct Codes {
    TensorView rows;            // of the quantized tensor's shape
    TensorView inverse_scales;  // [experts of this rank]
  };
  ParamSpec spec(bool matrix) const;
  // y = x W_e^T, with the matrices as they are held.
  void multiply(Pass& pass, TensorView x, TensorView sorted, TensorView y) const;
  TensorView by_expert(TensorView bias) const { return bias.reshape({held_.count, outputs_}); }
  // The parts of a split expert each hold the bias of their summed output: only the first part adds it.
  bool brings_bias() const { return bias_ && (!options_.narrows || options_.place.tensor_rank == 0); }
  // Allocates in scratch, in the current frame. `groups`: none for matrices.
  Codes quantize(Pass& pass, Fp8Tensor tensor, TensorView x, TensorView groups) const;
  // [experts of this rank]: the largest magnitudes of each expert's part of x, over all ranks that hold parts
  // of the same experts and microbatch.
  TensorView largest(Pass& pass, Fp8Tensor tensor, TensorView x, TensorView groups) const;

  GroupedLinearOptions options_;
  parallel::Part held_;                    // experts
  parallel::Part columns_;                 // of the inner width
  std::int64_t outputs_ = 0, inputs_ = 0;  // of an expert's matrix on this rank
  Param weight_, bias_;
  quant::MatrixShape stored_;  // ParamSpec::stored of the matrix, of one expert
  LowRankExperts low_rank_;
};

}  // namespace stoa::nn
