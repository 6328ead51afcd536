// Linear layers in FP8 (ops/fp8.h): which tensors are quantized, and which largest magnitude sets the scale.
//
// Every GEMM quantizes its own operands: inputs and weights in one type, gradients of outputs in another one
// (Micikevicius et al. 2022, section 3.1). The scale is set by the largest magnitude, amax:
// - "tensorwise", or "current": that of the whole tensor of a microbatch. If tensor or context parallelism
//   splits it among ranks, the maximum over them is taken first, so that every layout computes the same.
// - "delayed": that of earlier steps (the recipe of Transformer Engine), so that a tensor is read once. It is
//   constant within a step: microbatches, recomputation and ranks use the same scale without communicating.
#pragma once

#include "nn/pass.h"

namespace stoa::nn {

// The tensors of a linear layer that are quantized.
enum class Fp8Tensor : std::uint8_t { kInput, kWeight, kOutputGradient, kCount };

// Delayed scaling: linear layers are identified by the parameter of their matrices (ParamSpec::products).
class AmaxAccess {
 public:
  struct Place {
    TensorView scaling;  // [layers]: the amax that sets the scale of this step; 0 if not known yet
    TensorView seen;     // [layers]: the largest magnitude in this step so far
  };
  virtual ~AmaxAccess() = default;
  virtual Place of(ParamId weight, Fp8Tensor tensor) = 0;
};

struct Fp8 {
  DType forward = DType::kE4M3;   // of inputs and weights
  DType gradient = DType::kE5M2;  // of the gradients of outputs
  int margin = 0;                 // scales are 2^margin times smaller than the largest magnitude allows
  bool weight_gradient = true;    // false: weight gradients are computed in compute precision
  AmaxAccess* history = nullptr;  // none: current scaling

  DType type_of(Fp8Tensor tensor) const { return tensor == Fp8Tensor::kOutputGradient ? gradient : forward; }
};

// The amax of an operand: from the history, which is updated only in training, or else largest().
template <class Largest>
AmaxAccess::Place amax_of(const Pass& pass, ParamId weight, Fp8Tensor tensor, const Largest& largest) {
  if (!pass.fp8->history) return {largest(), {}};
  AmaxAccess::Place place = pass.fp8->history->of(weight, tensor);
  if (!pass.training) place.seen = {};
  return place;
}

// Whether the tensor is split over tensor-parallel and context-parallel ranks.
struct Spread {
  bool tensor = false, context = false;
};

// Which tensor of which layer.
struct Fp8Operand {
  Fp8Tensor tensor = Fp8Tensor::kInput;
  ParamId weight;
  Spread spread;
};

// A matrix [R, C] in 8 bits; orientations that were not requested are none.
struct Quantized {
  TensorView rows;           // [R, C]
  TensorView columns;        // [C, R], R up to a multiple of 16
  TensorView inverse_scale;  // [1]
};
enum class Orientation : std::uint8_t { kRows, kColumns, kBoth };

// Allocates in scratch, in the current frame.
Quantized quantize(Pass& pass, TensorView x, const Fp8Operand& operand, Orientation wanted);

}  // namespace stoa::nn
