// A branch whose output is normalised before the residual addition: y = x + dropout(after(layer(before x))),
// `before` a norm (Gemma 2, 2408.00118, section 2) or nothing (OLMo 2, 2501.00656, section 2.1).
#pragma once

#include <memory>
#include <optional>

#include "nn/norm.h"
#include "nn/sublayer.h"

namespace stoa::nn {

struct NormedBranchOptions {
  std::string name;                            // "layers.0"
  std::string before_name, after_name, label;  // "norm1", "attention_norm", "attention"
  NormOptions norm;
  bool norm_before = false;
  bool reads_block_input = false;  // x is kept, whatever is recomputed
  std::int64_t hidden = 0;
  float dropout = 0;
  Precision precision;
  parallel::TensorPlace place;
};

class NormedBranch {
 public:
  NormedBranch(const NormedBranchOptions& options, std::unique_ptr<Sublayer> layer);
  NormedBranch(const NormedBranch&) = delete;  // activations refer to it
  NormedBranch& operator=(const NormedBranch&) = delete;

  // `input`: the activation x, in residual precision.
  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, int input);
  // Computes the inputs of add(): before y is written, which may be the same memory as x.
  void prepare(Pass& pass, Saved& saved) const { saved.get(pass, branch_); }
  void add(Pass& pass, Saved& saved, TensorView y) const;
  // kBoth, kInput: dy -> dx, which may be dy.
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const;
  void backward_weight(Pass& pass, Saved& saved) const { layer_->backward_weight(pass, saved); }

 private:
  void make_read(Pass& pass, Saved& saved) const;
  void make_branch(Pass& pass, Saved& saved) const;
  void make_after_statistics(Pass& pass, Saved& saved) const;
  DropoutRows dropout(const Pass& pass) const;

  NormedBranchOptions options_;
  std::optional<Norm> before_;
  std::unique_ptr<Sublayer> layer_;
  Norm after_;
  // x; the layer's input; the layer's output
  int input_ = -1, read_ = -1, before_stats_ = -1, branch_ = -1, after_stats_ = -1;
};

}  // namespace stoa::nn
