// Between the matrix products of Muon (ops/muon.h): fields as there.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct MuonMomentumArgs {
  const float* gradient = nullptr;
  float* momentum = nullptr;
  float* direction = nullptr;
  std::int64_t count = 0;
  const double* state = nullptr;
  double factor = 0;
  bool nesterov = true;
  bool wide = false;  // addresses are multiples of 16
};
void launch_muon_momentum(const MuonMomentumArgs& args, void* stream);

struct MuonUpdateArgs {
  float* master = nullptr;
  void* compute = nullptr;  // or null
  Element compute_type = Element::kF32;
  const float* direction = nullptr;
  std::int64_t count = 0;
  const double* state = nullptr;
  double scale = 1, decay_factor = 1;
  bool wide = false;
};
void launch_muon_update(const MuonUpdateArgs& args, void* stream);

// y = x / max(sqrt(squares), least)
struct UnitScaleArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
  const double* squares = nullptr;
  double least = 0;
  bool wide = false;
};
void launch_unit_scale(const UnitScaleArgs& args, void* stream);

}  // namespace stoa::ops::cuda
