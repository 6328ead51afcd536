// A linear layer y = x W^T + b. Its matrix may hold several canonical matrices, one below the other (q, k,
// v).
//
// Among the ranks of a tensor-parallel group a layer is whole, or split by outputs ("column-parallel" in
// Megatron-LM, whose matrices are transposed): every rank has some rows of every piece, all of x's columns
// and some of y's; or split by inputs ("row-parallel"): every rank has some columns of W and x, and the
// partial products are added (Shoeybi et al. 2019, section 3). x of the former and y of the latter are rows
// of the residual stream, which may be split too (nn/tensor_rows.h). A whole layer is applied to the rows
// that a rank holds: if the stream is split, its gradients are partial sums.
//
// Where sums keep the order of one rank (parallel::TensorPlace::exact), a layer that would be split by inputs
// is split by outputs: the parts of x are gathered before the product and those of y after it, so that each
// element of y is one sum over all columns. Such a layer has no backward pass.
//
// In a pass with `fp8` its GEMMs are in FP8, but for those of its low-rank branches (nn/low_rank.h).
#pragma once

#include "nn/fp8.h"
#include "nn/linear_options.h"
#include "nn/low_rank.h"
#include "nn/module.h"
#include "nn/rescaled.h"
#include "nn/tensor_rows.h"

namespace stoa::nn {

class Linear {
 public:
  explicit Linear(LinearOptions options);

  void declare(ParamList& params);
  // Columns of x and of y on this rank.
  std::int64_t inputs() const { return given_.count; }
  std::int64_t outputs() const { return outputs_; }

  void forward(Pass& pass, TensorView x, TensorView y) const;  // [T, K] -> [T, N]
  // kBoth: dx [T, K] of dy [T, N], and the weights' gradients into the main gradients; kInput: dx alone.
  void backward(Pass& pass, Which which, TensorView x, TensorView dy, TensorView dx) const;
  // This rank's part of the matrix, in compute precision: [outputs, inputs]; with its low-rank branches, in
  // scratch of the current frame.
  TensorView whole_matrix(Pass& pass) const;
  // Only the weights' gradients; nothing if they are frozen.
  void backward_weight(Pass& pass, TensorView x, TensorView dy) const;

 private:
  ParamSpec spec(bool matrix) const;
  // In compute precision, or as bytes: packed_.bytes() or stored_.bytes().
  TensorView weight(Pass& pass) const { return pass.params.get(weight_.value); }
  bool is_packed() const { return packed_.kind != quant::PackedKind::kNone; }
  bool trains() const { return weight_.trained() || bias_.trained(); }
  // Whether another product can join those with W.
  bool joins(const Pass& pass) const { return !is_packed() && stored_.count == 0 && !pass.fp8; }
  void multiply(Pass& pass, TensorView x, TensorView bias, TensorView y,
                const LowRank::Joined& joined = {}) const;
  // dx from dy; returns dy in FP8 for the weights' gradients, where those GEMMs will be in FP8.
  Quantized multiply_gradient(Pass& pass, Which which, TensorView dy, TensorView dx,
                              const LowRank::Joined& joined = {}) const;
  // `dy8`: what multiply_gradient() returned, or none.
  void add_weight_gradient(Pass& pass, TensorView x, TensorView dy, Quantized dy8) const;
  // Gradients of the factors of nn/rescaled.h. `dinput`: as there, or none: it is computed.
  void add_factor_gradient(Pass& pass, TensorView x, TensorView dy, TensorView dinput) const;
  // Executes `op` as FP8 GEMMs.
  void multiply_columns(Pass& pass, const ops::LinearBackwardWeight& op, Quantized dy8) const;
  // The quantized operands of FP8 GEMMs.
  Quantized input8(Pass& pass, TensorView x, Orientation wanted) const;
  Quantized weight8(Pass& pass, Orientation wanted) const;
  Quantized gradient8(Pass& pass, TensorView dy, Orientation wanted) const;
  // The ranks that hold parts of x (kInputs), or of y or dy (kOutputs).
  Spread spread_of_rows(const Pass& pass, LinearSplit columns_split) const;
  // Where the rows of x come from and those of y go: the group's ranks if this side is rows of the stream.
  const parallel::TensorPlace& x_place() const { return split_at(LinearSplit::kOutputs); }
  const parallel::TensorPlace& y_place() const { return split_at(LinearSplit::kInputs); }
  const parallel::TensorPlace& split_at(LinearSplit split) const {
    return options_.split == split ? options_.place : alone_;
  }

  LinearOptions options_;
  const parallel::TensorPlace alone_;
  parallel::Part columns_;  // of the matrix
  parallel::Part given_;    // of x
  bool gathers_ = false;    // parts of x and of y
  std::int64_t outputs_ = 0;
  Param weight_, bias_;
  quant::PackedShape packed_;  // of a matrix that is held packed
  quant::MatrixShape stored_;  // ParamSpec::stored
  LowRank low_rank_;
  Rescaled rescaled_;
};

}  // namespace stoa::nn
