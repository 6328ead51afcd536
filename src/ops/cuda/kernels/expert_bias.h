// Biases of experts' linear layers (ops/expert_bias.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// Contiguous rows. Without weights their factor is 1.
struct ExpertBiasArgs {
  Element type = Element::kF32;  // of y or dy
  std::int64_t rows = 0, columns = 0, experts = 0;
  const std::int32_t* sorted_experts = nullptr;
  const std::int32_t* order = nullptr;
  const float* weights = nullptr;
  void* y = nullptr;            // or dy
  const float* bias = nullptr;  // [experts, columns]
  float* out = nullptr;         // backward: dbias or dweights
  bool accumulate = true;       // dbias
};
void launch_expert_bias(const ExpertBiasArgs& args, void* stream);
void launch_expert_bias_backward(const ExpertBiasArgs& args, void* stream);
void launch_expert_bias_backward_weights(const ExpertBiasArgs& args, void* stream);

}  // namespace stoa::ops::cuda
