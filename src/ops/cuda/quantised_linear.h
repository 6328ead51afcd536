// Products with quantised matrices by either of the kernels that give the same bits.
#pragma once

#include "ops/backend.h"
#include "ops/quantised_linear.h"

namespace stoa::ops::cuda {

// `many`: by the kernel of many tokens, of which there are more than kPassTokens. Workspace as
// CudaBackend::workspace_bytes() says.
void run_quantised_linear(const QuantisedLinear& op, bool many, Resources resources);

}  // namespace stoa::ops::cuda
