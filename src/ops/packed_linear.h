// Linear layers whose matrix is held in 8 or 4 bits (quant/packed_matrix.h): products with the numbers that
// it stands for, unpacked a tile at a time. Such a matrix is frozen: it has no gradient.
#pragma once

#include "ops/access.h"
#include "quant/packed_matrix.h"

namespace stoa::ops {

// y = x W^T + b.
struct PackedLinearForward {
  static constexpr const char* kName = "packed linear forward";
  TensorView x;              // [T, K]; rows may be strided
  TensorView w;              // u8, shape.bytes()
  quant::PackedShape shape;  // [N, K]
  TensorView bias;           // [N] accumulation type, or none
  TensorView y;              // [T, N]; rows may be strided; its type may also be the accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("w", a.w, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// dx = dy W.
struct PackedLinearBackwardInput {
  static constexpr const char* kName = "packed linear backward input";
  TensorView dy;             // [T, N]; rows may be strided
  TensorView w;              // as in forward
  quant::PackedShape shape;  // [N, K]
  TensorView dx;             // [T, K]; rows may be strided

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("w", a.w, Access::kRead);
    f("dx", a.dx, Access::kWrite);
  }
};

}  // namespace stoa::ops
