// Linear layers: y = x W^T + b and the two halves of its backward pass.
//
// T tokens, K inputs, N outputs. x, W, y share one floating-point type (fp64, fp32, bf16, fp16); products are
// summed in accumulation_type(dtype). Rows of x and y may be strided. W is [N, K], as in Hugging Face and
// PyTorch.
//
// A second product may join the sums of the first, x2 [T, R] and w2, before they are rounded: that of a
// low-rank branch, which then needs no pass over the output for itself.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

struct LinearForward {
  static constexpr const char* kName = "linear forward";
  TensorView x;     // [T, K]
  TensorView w;     // [N, K]
  TensorView bias;  // [N] accumulation type, or none
  TensorView y;     // [T, N]; its type may also be the accumulation type (fp32 logits of bf16 weights)
  TensorView x2 = {}, w2 = {};  // [T, R] and [N, R], or none: y = x W^T + x2 w2^T + b

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("w", a.w, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("y", a.y, Access::kWrite);
    f("x2", a.x2, Access::kRead);
    f("w2", a.w2, Access::kRead);
  }
};

struct LinearBackwardInput {
  static constexpr const char* kName = "linear backward input";
  TensorView dy;                 // [T, N]
  TensorView w;                  // [N, K]
  TensorView dx;                 // [T, K]
  bool accumulate = false;       // dx += instead of dx =
  TensorView dy2 = {}, w2 = {};  // [T, R] and [R, K], or none: dx = dy W + dy2 w2

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("w", a.w, Access::kRead);
    f("dx", a.dx, a.accumulate ? Access::kReadWrite : Access::kWrite);
    f("dy2", a.dy2, Access::kRead);
    f("w2", a.w2, Access::kRead);
  }
};

// dW += dy^T x and db += sum over tokens of dy, into main gradients of the accumulation type. The sum over
// tokens of one call is formed first and then added once: one rounding per microbatch, whatever the tiling.
struct LinearBackwardWeight {
  static constexpr const char* kName = "linear backward weight";
  TensorView x;            // [T, K]
  TensorView dy;           // [T, N]
  TensorView dw;           // [N, K] accumulation type
  TensorView dbias;        // [N] accumulation type, or none
  bool accumulate = true;  // false: overwrite (the first microbatch of a step)

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dw", a.dw, a.accumulate ? Access::kReadWrite : Access::kWrite);
    f("dbias", a.dbias, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

}  // namespace stoa::ops
