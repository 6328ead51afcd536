#include "ops/likeliest.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/likeliest.h"

namespace stoa::ops::cuda {

void CudaBackend::execute(const Likeliest& op, Resources resources) {
  require<ShapeError>(op.logits.dtype == DType::kF32 && op.found.dtype == DType::kI32 &&
                          op.logits.shape.rank() == 2 && op.logits.shape[1] > 0 &&
                          op.found.shape == Shape({op.logits.rows(), 2}),
                      "likeliest: logits {} and found {}", op.logits.text(), op.found.text());
  launch_likeliest({.logits = op.logits.as<float>(),
                    .rows = op.logits.rows(),
                    .columns = op.logits.shape[1],
                    .stride = op.logits.stride0,
                    .found = op.found.as<std::int32_t>()},
                   native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
