// Activations of the feed-forward layer, plain (y = f(x)) and gated (y = f(gate) * up, x =
// [gate | up]; Shazeer 2020). kGeluTanh is GPT-2's gelu_new; kTanh is for BERT's pooler,
// kSigmoid for gates of attention's output. kClampedSwiglu is the swiglu of gpt-oss
// (2508.10925, section 2.1), which is always gated: with g = min(gate, limit) and u = up
// clamped to [-limit, limit], y = (u + 1) g sigmoid(alpha g); the gradient is 0 where a value
// is clamped.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

enum class ActivationKind : std::uint8_t {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kSilu,
  kRelu,
  kSquaredRelu,
  kTanh,
  kSigmoid,
  kClampedSwiglu
};

// Parameters of kClampedSwiglu; ignored by the other kinds.
struct ActivationClamp {
  double alpha = 1.702, limit = 7;
};

struct ActivationForward {
  static constexpr const char* kName = "activation forward";
  ActivationKind kind = ActivationKind::kGelu;
  bool gated = false;
  TensorView x;  // [T, F], gated: [T, 2F]
  TensorView y;  // [T, F]
  ActivationClamp clamp = {};

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

struct ActivationBackward {
  static constexpr const char* kName = "activation backward";
  ActivationKind kind = ActivationKind::kGelu;
  bool gated = false;
  TensorView x;   // as in forward
  TensorView dy;  // [T, F]
  TensorView dx;  // as x; may alias x; without gate it may alias dy
  ActivationClamp clamp = {};

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dx", a.dx, Access::kWrite);
  }
};

}  // namespace stoa::ops
