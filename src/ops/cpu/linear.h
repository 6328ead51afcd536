// Linear layers as matrix products.
#pragma once

#include "ops/cpu/gemm.h"
#include "ops/linear.h"
#include "ops/packed_linear.h"

namespace stoa::ops::cpu {

inline Gemm gemm_of(const LinearForward& op) {
  return {.a = {op.x, false},
          .b = {op.w, false},
          .bias = op.bias,
          .out = op.y,
          .accumulate = false,
          .a2 = {op.x2, false},
          .b2 = {op.w2, false}};
}
inline Gemm gemm_of(const LinearBackwardInput& op) {
  return {.a = {op.dy, false},
          .b = {op.w, true},
          .bias = {},
          .out = op.dx,
          .accumulate = op.accumulate,
          .a2 = {op.dy2, false},
          .b2 = {op.w2, true}};
}
// A packed matrix has a shape, and memory that is not that of its type.
template <class Op>
GemmOperand packed_operand(const Op& op, DType type, bool transposed) {
  return {.matrix = TensorView(op.w.data, type, {op.shape.rows, op.shape.columns}),
          .transposed = transposed,
          .packed = &op.shape};
}
inline Gemm gemm_of(const PackedLinearForward& op) {
  return {.a = {op.x, false},
          .b = packed_operand(op, op.x.dtype, false),
          .bias = op.bias,
          .out = op.y,
          .accumulate = false};
}
inline Gemm gemm_of(const PackedLinearBackwardInput& op) {
  return {.a = {op.dy, false},
          .b = packed_operand(op, op.dy.dtype, true),
          .bias = {},
          .out = op.dx,
          .accumulate = false};
}
// The bias gradient apart.
inline Gemm gemm_of(const LinearBackwardWeight& op) {
  return {.a = {op.dy, true}, .b = {op.x, true}, .bias = {}, .out = op.dw, .accumulate = op.accumulate};
}

}  // namespace stoa::ops::cpu
