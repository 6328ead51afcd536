// FLOPs that a step executes, compared with those the model needs (training_plan.h).
#pragma once

#include <cstdint>

#include "model/model_spec.h"

namespace stoa::train {

// model_flops_per_token() plus the forward passes of layers that are recomputed in full.
double executed_flops_per_token(const model::ModelSpec& model, std::int64_t sequence);

}  // namespace stoa::train
