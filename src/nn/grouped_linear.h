// The linear layers of a rank's experts, y = x W_e^T: rows of x are sorted by expert (ops/moe.h), and one
// matrix holds those of all experts of this rank, one below the other. Of each it has the inner columns that
// this rank has: rows of matrices that widen, columns of those that narrow again.
//
// In a pass with `fp8` its products are of 8-bit floats. Each expert is a linear layer of its own: its rows,
// its matrix and its gradients have their own scales, as the GEMMs of Transformer Engine's GroupedLinear do,
// and, where scaling is delayed, histories of their own. So an expert that gets no tokens keeps its scales,
// and which ranks hold which experts does not show.
#pragma once

#include "nn/fp8.h"
#include "nn/module.h"
#include "parallel/expert_place.h"

namespace stoa::nn {

struct GroupedLinearOptions {
  std::string layer;                              // "layers.0.moe"
  std::string name;                               // "gate_up"
  std::vector<std::string> parts;                 // of an expert's matrix, one below the other: "gate", "up"
  bool narrows = false;                           // inner width to hidden width; else the other way
  std::int64_t experts = 0, hidden = 0, ffn = 0;  // canonical
  bool bias = false;                              // one of each part of each expert
  double deviation = 0.02;                        // of the initial weights
  parallel::ExpertPlace place;
};

// Factors of a bias in the rows that it is added to: row i has weights[order[i]]. None: 1.
struct RowWeights {
  TensorView order = {}, weights = {};
};

class GroupedLinear {
 public:
  explicit GroupedLinear(GroupedLinearOptions options);

  void declare(ParamList& params);

  // `sorted`: int32, whose expert a row is; -1, in the last rows: no expert's, neither read nor written.
  void forward(Pass& pass, TensorView x, TensorView sorted, TensorView y,
               const RowWeights& weights = {}) const;  // [R, K] -> [R, N]
  void backward_input(Pass& pass, TensorView dy, TensorView sorted, TensorView dx) const;
  void backward_weight(Pass& pass, TensorView x, TensorView dy, TensorView sorted) const;
  // Of a layer with bias: its gradient, and what it adds to that of the weights [as weights.weights], if
  // given (other parts of a split expert leave that to the first).
  void backward_bias(Pass& pass, TensorView dy, TensorView sorted, const RowWeights& weights = {},
                     TensorView dweights = {}) const;
  bool has_bias() const { return options_.bias; }

 private:
  struct Codes {
    TensorView rows;            // of the shape of what they stand for
    TensorView inverse_scales;  // [experts of this rank]
  };
  ParamSpec spec(bool matrix) const;
  TensorView by_expert(TensorView bias) const { return bias.reshape({held_.count, outputs_}); }
  // The parts of a split expert hold copies of the bias of what they add up to: the first brings it.
  bool brings_bias() const { return bias_ && (!options_.narrows || options_.place.tensor_rank == 0); }
  // In scratch of the current frame. `groups`: none for the matrices.
  Codes quantize(Pass& pass, Fp8Tensor tensor, TensorView x, TensorView groups) const;
  // [experts of this rank]: the largest magnitudes of their parts of x, compared with what other ranks have
  // of the same experts and microbatch.
  TensorView largest(Pass& pass, Fp8Tensor tensor, TensorView x, TensorView groups) const;

  GroupedLinearOptions options_;
  parallel::Part held_;                    // experts
  parallel::Part columns_;                 // of the inner width
  std::int64_t outputs_ = 0, inputs_ = 0;  // of an expert's matrix on this rank
  Param weight_, bias_;
};

}  // namespace stoa::nn
