// Step scalars (ops/step_state.h) in device memory.
#pragma once

#include "ops/cuda/kernels/thread.h"
#include "ops/step_state.h"

namespace stoa::ops::cuda {

STOA_DEVICE double& slot(double* state, StepSlot which) { return state[static_cast<int>(which)]; }
STOA_DEVICE double slot(const double* state, StepSlot which) { return state[static_cast<int>(which)]; }

}  // namespace stoa::ops::cuda
