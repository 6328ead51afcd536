// Floating-point operations of a training step per token: what the model needs, and what the step executes.
#pragma once

#include "model/model_spec.h"

namespace stoa::train {

// 2 per weight that a token meets, and causal attention at half, for each of: the forward pass, the gradients
// of inputs and those of weights. So 6 x weights + 6 x layers x hidden x sequence where all is trained;
// frozen weights have no gradient, and layers before the first that is trained no backward pass.
double model_flops_per_token(const model::ModelSpec& model, std::int64_t sequence);
// The same and the forward passes of layers that are recomputed in full.
double executed_flops_per_token(const model::ModelSpec& model, std::int64_t sequence);

}  // namespace stoa::train
