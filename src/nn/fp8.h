// Linear layers in 8-bit floats (ops/fp8.h): which tensors are quantized, and by whose largest magnitude.
//
// Every product quantizes its operands anew ("tensorwise" or "current" scaling): inputs and weights in one
// type, gradients of outputs in another (Micikevicius et al. 2022, section 3.1). The scale of a tensor is
// that of the whole tensor of a microbatch: where tensor or context parallelism spreads it over ranks, their
// maxima are compared first, so that every layout multiplies the same numbers.
#pragma once

#include "nn/pass.h"

namespace stoa::nn {

struct Fp8 {
  DType forward = DType::kE4M3;   // of inputs and weights
  DType gradient = DType::kE5M2;  // of the gradients of outputs
  int margin = 0;                 // scales are 2^margin times smaller than the largest magnitude allows
  bool weight_gradient = true;    // false: weights' gradients are products in compute precision
};

// The groups of ranks that hold parts of a tensor.
struct Spread {
  bool tensor = false, context = false;
};

// A matrix [R, C] in 8 bits; parts that were not asked for are none.
struct Quantized {
  TensorView rows;           // [R, C]
  TensorView columns;        // [C, R], R up to a multiple of 16
  TensorView inverse_scale;  // [1]
};
enum class Orientation : std::uint8_t { kRows, kColumns, kBoth };

// In scratch of the current frame.
Quantized quantize(Pass& pass, TensorView x, DType type, const Spread& spread, Orientation wanted);

}  // namespace stoa::nn
