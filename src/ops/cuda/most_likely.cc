#include "ops/most_likely.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/most_likely.h"

namespace stoa::ops::cuda {

void CudaBackend::execute(const MostLikely& op, Resources resources) {
  require<ShapeError>(op.logits.dtype == DType::kF32 && op.found.dtype == DType::kI32 &&
                          op.logits.shape.rank() == 2 && op.logits.shape[1] > 0 &&
                          op.found.shape == Shape({op.logits.rows(), 2}),
                      "most likely: logits {} and found {}", op.logits.text(), op.found.text());
  launch_most_likely({.logits = op.logits.as<float>(),
                      .rows = op.logits.rows(),
                      .columns = op.logits.shape[1],
                      .stride = op.logits.stride0,
                      .found = op.found.as<std::int32_t>()},
                     native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
