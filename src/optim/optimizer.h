// The end of a step: norm, clipping, and the update of what this rank holds of every parameter, all from
// device scalars.
#pragma once

#include <string>
#include <vector>

#include "optim/config.h"
#include "optim/global_norm.h"
#include "optim/gradient_store.h"
#include "optim/muon.h"
#include "optim/parameter_store.h"

namespace stoa::optim {

// Elements of a parameter that are updated with one rate.
struct ScaledRun {
  FlatRange range;
  nn::ParamScale scale;
};

class Optimizer {
 public:
  // `tensors`: of the whole model, where this rank holds but some of its layers; else empty.
  Optimizer(Arena& arena, ParameterStore& parameters, GradientStore& gradients, const OptimConfig& config,
            nn::Precision precision, std::vector<CanonicalTensor> tensors = {});

  // Zero moments: the start of training.
  void reset(ops::OpContext& ops);
  // Reads main gradients, updates masters and compute values, unless the step is to be skipped. Collective.
  void step(ops::OpContext& ops, const ops::PrepareUpdate& prepare);
  // Writes compute values from the masters (after a checkpoint was loaded). Collective.
  void refresh_values(ops::OpContext& ops);

  // Names of the moments ("adam.m", "adam.v"; "sgd.momentum"; "muon.momentum"), as in checkpoints, and their
  // tensors: of what this rank holds of the parameter (ParameterStore::held), in the shape of its master.
  const std::vector<std::string>& moment_names() const { return moment_names_; }
  TensorView moment(int which, nn::ParamId id);
  // Whether a canonical tensor has it: with Muon some have one, others Adam's two.
  bool has_moment(int which, std::string_view canonical_name, const Shape& global) const;

 private:
  void update(ops::OpContext& ops, nn::ParamId id, TensorView state);
  void update_sgd(ops::OpContext& ops, nn::ParamId id, TensorView state);
  void update_adam(ops::OpContext& ops, nn::ParamId id, TensorView state, const ScaledRun& run);

  Arena* arena_;
  ParameterStore& parameters_;
  GradientStore& gradients_;
  const OptimConfig config_;
  std::vector<std::string> moment_names_;
  std::vector<std::vector<Arena::Id>> moments_;  // [which][bucket]: as much as is held of the bucket; none
  GlobalNorm norm_;
  Muon muon_;
};

}  // namespace stoa::optim
