#include "ops/most_likely.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/most_likely.h"

namespace stoa::ops::cuda {

static_assert(kBlockOfLogits == kMostLikelyBlock);

void CudaBackend::execute(const MostLikely& op, Resources resources) {
  launch_most_likely({.logits = op.logits.as<float>(),
                      .rows = op.logits.rows(),
                      .columns = op.logits.shape[1],
                      .stride = op.logits.stride0,
                      .found = op.found.as<std::int32_t>()},
                     native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
