// Linear layers in 8-bit floats (ops/fp8.h): which tensors are quantized, and by whose largest magnitude.
//
// Every product quantizes its operands anew: inputs and weights in one type, gradients of outputs in another
// (Micikevicius et al. 2022, section 3.1). Whose largest magnitude, amax, makes the scale:
// - "tensorwise", or "current": that of the whole tensor of a microbatch. Where tensor or context parallelism
//   spreads it over ranks, their maxima are compared first, so that every layout multiplies the same numbers.
// - "delayed": that of earlier steps (the recipe of Transformer Engine), so that a tensor is read once. It is
//   fixed within a step: microbatches, recomputation and ranks all scale alike without asking each other.
#pragma once

#include "nn/pass.h"

namespace stoa::nn {

// The tensors of a linear layer that are quantized.
enum class Fp8Tensor : std::uint8_t { kInput, kWeight, kOutputGradient, kCount };

// Delayed scaling: linear layers are known by the parameter that holds their matrices (ParamSpec::products).
class AmaxAccess {
 public:
  struct Place {
    TensorView scaling;  // [layers]: the amax that makes the scale of this step; 0 where nothing is known
    TensorView seen;     // [layers]: the largest magnitude in this step so far
  };
  virtual ~AmaxAccess() = default;
  virtual Place of(ParamId weight, Fp8Tensor tensor) = 0;
};

struct Fp8 {
  DType forward = DType::kE4M3;   // of inputs and weights
  DType gradient = DType::kE5M2;  // of the gradients of outputs
  int margin = 0;                 // scales are 2^margin times smaller than the largest magnitude allows
  bool weight_gradient = true;    // false: weights' gradients are products in compute precision
  AmaxAccess* history = nullptr;  // none: current scaling

  DType type_of(Fp8Tensor tensor) const { return tensor == Fp8Tensor::kOutputGradient ? gradient : forward; }
};

// What scales an operand: that of the history, which learns in training only, or largest() of it as it is.
template <class Largest>
AmaxAccess::Place amax_of(const Pass& pass, ParamId weight, Fp8Tensor tensor, const Largest& largest) {
  if (!pass.fp8->history) return {largest(), {}};
  AmaxAccess::Place place = pass.fp8->history->of(weight, tensor);
  if (!pass.training) place.seen = {};
  return place;
}

// The groups of ranks that hold parts of a tensor.
struct Spread {
  bool tensor = false, context = false;
};

// Which tensor of which layer.
struct Fp8Operand {
  Fp8Tensor tensor = Fp8Tensor::kInput;
  ParamId weight;
  Spread spread;
};

// A matrix [R, C] in 8 bits; parts that were not asked for are none.
struct Quantized {
  TensorView rows;           // [R, C]
  TensorView columns;        // [C, R], R up to a multiple of 16
  TensorView inverse_scale;  // [1]
};
enum class Orientation : std::uint8_t { kRows, kColumns, kBoth };

// In scratch of the current frame.
Quantized quantize(Pass& pass, TensorView x, const Fp8Operand& operand, Orientation wanted);

}  // namespace stoa::nn
