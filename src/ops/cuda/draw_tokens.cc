#include "ops/draw_tokens.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/draw_tokens.h"

namespace stoa::ops::cuda {

void CudaBackend::execute(const DrawTokens& op, Resources resources) {
  launch_draw_tokens({.logits = op.logits.as<float>(),
                      .columns = op.logits.shape[1],
                      .stride = op.logits.stride0,
                      .draws = static_cast<const TokenDraw*>(op.draws.data),
                      .count = op.draws.rows(),
                      .found = op.found.as<std::int32_t>()},
                     native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
