// The weight of every token's loss in the gradients of a step.
#pragma once

#include "nn/pass.h"

namespace stoa::nn {

// out [N, 1] of accumulation type = mask [N] times the seed of the losses (StepSlot::kLossSeed), which the
// device alone knows.
void seeded_weights(Pass& pass, TensorView mask, TensorView out);

}  // namespace stoa::nn
