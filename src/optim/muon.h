// Muon for the matrices of the layers (see ops/muon.h for references): which parameters use it, and their
// update on any number of ranks.
//
// The Newton-Schulz steps need whole canonical matrices. If ranks hold parts - columns or rows (tensor
// parallelism), flat ranges (ZeRO) - each contributes its part of the direction, zero elsewhere, and the
// parts are added: every element comes from exactly one rank, so the sum is exact for any layout. Ranks that
// hold the same matrices share the computation: in each round of as many matrices as there are such ranks,
// each computes one and sends it to the others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "optim/config.h"
#include "optim/gradient_store.h"
#include "optim/parameter_store.h"

namespace stoa::optim {

// Whether a canonical tensor is updated by Muon: matrices of the layers (not embedding, head, vectors).
bool takes_muon(const OptimConfig& config, std::string_view canonical_name, const Shape& global);

class Muon {
 public:
  // The references must outlive this.
  Muon(ParameterStore& parameters, GradientStore& gradients, const OptimConfig& config);

  bool updates(nn::ParamId id) const;
  // Updates all parameters that use Muon. `momentum(id)`: in the shape of the master. Collective.
  template <class Momentum>
  void step(ops::OpContext& ops, TensorView state, const Momentum& momentum) const {
    for (std::size_t i = 0; i < ids_.size(); ++i) update(ops, ids_[i], momentum(ids_[i]), state);
  }

 private:
  void update(ops::OpContext& ops, nn::ParamId id, TensorView momentum, TensorView state) const;
  void gather(ops::OpContext& ops, const nn::ParamSpec& spec, const ShardPiece& piece, TensorView local,
              TensorView whole) const;
  double scale(const Shape& matrix) const;

  ParameterStore& parameters_;
  GradientStore& gradients_;
  const OptimConfig config_;
  std::vector<nn::ParamId> ids_;
};

// Replaces x by its nearest orthogonal matrix, approximately, times `scale`: singular values become about 1
// (UnitNorm, then `steps` times x = a x + (b x x' + c (x x')^2) x).
void orthogonalize(ops::OpContext& ops, TensorView x, MuonCoefficients coefficients, std::int64_t steps,
                   double scale);

}  // namespace stoa::optim
