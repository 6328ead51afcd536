// Biases of experts' linear layers (ops/moe.h): rows are sorted by expert, unused rows come last.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// y[i] += weights[order[i]] bias[sorted_experts[i]]; without weights their factor is 1. With them a row of
// expert outputs may have been scaled before its product, and its bias is scaled here.
struct ExpertBias {
  static constexpr const char* kName = "expert bias";
  TensorView bias;            // [E, N] accumulation type
  TensorView sorted_experts;  // int32 [T, k] for the R rows; -1: unused
  TensorView order, weights;  // int32 [T, k], accumulation type [T, k]; both or none
  TensorView y;               // [R, N]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("bias", a.bias, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("order", a.order, Access::kRead);
    f("weights", a.weights, Access::kRead);
    f("y", a.y, Access::kReadWrite);
  }
};

// dbias[e] = sum over the rows of e of weights[order[i]] dy[i].
struct ExpertBiasBackward {
  static constexpr const char* kName = "expert bias backward";
  TensorView dy;              // [R, N]
  TensorView sorted_experts;  // int32 [T, k]
  TensorView order, weights;  // as above
  TensorView dbias;           // [E, N] accumulation type
  bool accumulate = true;     // false: of experts without rows it becomes zero

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("order", a.order, Access::kRead);
    f("weights", a.weights, Access::kRead);
    f("dbias", a.dbias, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// dweights[order[i]] += bias[sorted_experts[i]] · dy[i].
struct ExpertBiasBackwardWeights {
  static constexpr const char* kName = "expert bias backward weights";
  TensorView dy;              // [R, N]
  TensorView bias;            // [E, N] accumulation type
  TensorView sorted_experts;  // int32 [T, k]
  TensorView order;           // int32 [T, k]
  TensorView dweights;        // [T, k] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("order", a.order, Access::kRead);
    f("dweights", a.dweights, Access::kReadWrite);
  }
};

}  // namespace stoa::ops
