// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang, Sennrich 2019), with the residual addition before them fused
// in.
//
// x is [T, D], or [T, G, D] to normalise each of G heads apart (q/k norm); dimension 0 may be strided.
// Statistics are computed in the accumulation type (two passes: mean, then squares of the differences). gamma
// and beta are of the accumulation type.
#pragma once

#include "base/philox.h"
#include "ops/access.h"

namespace stoa::ops {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };

// Zeroes an element with probability p and scales the rest by 1/(1-p). The mask is a function of the
// element's global coordinates: Philox word `(sample*sequence + position)*D + column` of the stream `key`. p
// = 0: no dropout, key unused.
struct Dropout {
  float p = 0;
  PhiloxKey key;                 // of (seed, purpose, layer), and the step
  std::int64_t first_token = 0;  // global index of row 0 of the tensor: sample * sequence + position
};

// Rows of x to normalised rows y. With `branch`: sum = x + dropout(branch) is written, and
// y = norm(sum as stored): the same bits as a norm without branch of that sum.
struct NormForward {
  static constexpr const char* kName = "norm forward";
  NormKind kind = NormKind::kLayerNorm;
  double epsilon = 1e-5;
  TensorView x;       // [T, D] or [T, G, D]
  TensorView branch;  // [T, D] to be added first, or none
  Dropout dropout;    // of the branch
  TensorView sum;     // [T, D] x + dropout(branch), where branch is given; may be x itself. Type of x
  TensorView gamma;   // [D], or none: ones
  TensorView beta;    // [D] or none
  TensorView y;       // as x; its type may differ from x's (fp32 residual, bf16 layers)
  TensorView stats;   // [rows, 2] mean, 1/deviation in the accumulation type; none in inference. RMSNorm
                      // writes mean 0

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("branch", a.branch, Access::kRead);
    f("sum", a.sum, Access::kWrite);
    f("gamma", a.gamma, Access::kRead);
    f("beta", a.beta, Access::kRead);
    f("y", a.y, Access::kWrite);
    f("stats", a.stats, Access::kWrite);
  }
};

// dx = dresidual + gradient of the norm; dgamma, dbeta accumulate. x is the input of the norm (the sum, where
// there was a branch); dx may be x itself. With dbranch: also dbranch = dropout'(dx).
struct NormBackward {
  static constexpr const char* kName = "norm backward";
  NormKind kind = NormKind::kLayerNorm;
  TensorView x;
  TensorView stats;
  TensorView gamma;  // [D] or none, and dgamma with it
  TensorView dy;
  TensorView dresidual;  // gradient that reaches x past the norm, or none. Type of x; may be dx itself
  TensorView dx;
  Dropout dropout;
  TensorView dbranch;      // type of dy, or none
  TensorView dgamma;       // [D] accumulation type; none without gamma
  TensorView dbeta;        // [D] or none
  bool accumulate = true;  // dgamma, dbeta: += or =

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("stats", a.stats, Access::kRead);
    f("gamma", a.gamma, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dresidual", a.dresidual, Access::kRead);
    f("dx", a.dx, Access::kWrite);
    f("dbranch", a.dbranch, Access::kWrite);
    f("dgamma", a.dgamma, a.accumulate ? Access::kReadWrite : Access::kWrite);
    f("dbeta", a.dbeta, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

}  // namespace stoa::ops
