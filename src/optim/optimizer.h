// The end of a step: norm, clipping, and the update of this rank's part of every parameter, all controlled by
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
  // `tensors`: those of the whole model if this rank holds only some of its layers; else empty.
  Optimizer(Arena& arena, ParameterStore& parameters, GradientStore& gradients, const OptimConfig& config,
            nn::Precision precision, std::vector<CanonicalTensor> tensors = {});

  // Zero moments: the start of training.
  void reset(ops::OpContext& ops);
  // Reads main gradients, updates masters and compute values, unless the step is to be skipped. Collective.
  void step(ops::OpContext& ops, const ops::PrepareUpdate& prepare);
  // Writes compute values from the masters, and makes frozen ones known (after weights were loaded).
  // Collective.
  void refresh_values(ops::OpContext& ops);

  // Names of the moments ("adam.m", "adam.v"; "sgd.momentum"; "muon.momentum"), as in checkpoints, and their
  // tensors: for this rank's part of the parameter (ParameterStore::held), in the shape of its master; none
  // of a frozen one.
  const std::vector<std::string>& moment_names() const { return moment_names_; }
  TensorView moment(int which, nn::ParamId id);
  // Whether a canonical tensor that is trained has this moment: with Muon some have one, the others Adam's
  // two.
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
  std::vector<std::vector<Arena::Id>> moments_;  // [which][bucket]: for the held part of the bucket; or none
  GlobalNorm norm_;
  Muon muon_;
};

}  // namespace stoa::optim
