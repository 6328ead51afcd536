// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, 2502.16982): momentum, made
// nearly orthogonal by a few Newton-Schulz steps on the whole matrix, is the direction of the update. The
// products of the steps are linear layers; these are the operations between them.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// momentum = b momentum + (1 - b) g with g the gradient times kGradFactor; direction = momentum, or with
// `nesterov` b momentum + (1 - b) g. Nothing is written in a step that is skipped.
struct MuonMomentum {
  static constexpr const char* kName = "muon momentum";
  TensorView gradient, momentum;  // accumulation type, one shape
  TensorView direction;           // the same
  TensorView state;
  double factor = 0.95;  // b
  bool nesterov = true;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("gradient", a.gradient, Access::kRead);
    f("momentum", a.momentum, Access::kReadWrite);
    f("direction", a.direction, Access::kWrite);
    f("state", a.state, Access::kRead);
  }
};

// y = x / max(Frobenius norm of x, 1e-7); the sum is in fp64.
struct UnitNorm {
  static constexpr const char* kName = "unit norm";
  static constexpr double kLeast = 1e-7;
  TensorView x, y;  // accumulation type, one shape; may be one tensor

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// master = (1 - rate decay) master - rate scale direction; also writes the compute copy. Nothing is written
// in a step that is skipped.
struct MuonUpdate {
  static constexpr const char* kName = "muon update";
  TensorView master;     // accumulation type
  TensorView compute;    // copy in compute type, or none
  TensorView direction;  // accumulation type
  TensorView state;
  double scale = 1;
  double decay_factor = 1;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("master", a.master, Access::kReadWrite);
    f("compute", a.compute, Access::kWrite);
    f("direction", a.direction, Access::kRead);
    f("state", a.state, Access::kRead);
  }
};

}  // namespace stoa::ops
