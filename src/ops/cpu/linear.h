// Linear layers as matrix products.
#pragma once

#include "ops/cpu/gemm.h"
#include "ops/linear.h"

namespace stoa::ops::cpu {

inline Gemm gemm_of(const LinearForward& op) {
  return {.a = {op.x, false}, .b = {op.w, false}, .bias = op.bias, .out = op.y, .accumulate = false};
}
inline Gemm gemm_of(const LinearBackwardInput& op) {
  return {.a = {op.dy, false}, .b = {op.w, true}, .bias = {}, .out = op.dx, .accumulate = op.accumulate};
}
// The bias gradient apart.
inline Gemm gemm_of(const LinearBackwardWeight& op) {
  return {.a = {op.dy, true}, .b = {op.x, true}, .bias = {}, .out = op.dw, .accumulate = op.accumulate};
}

}  // namespace stoa::ops::cpu
