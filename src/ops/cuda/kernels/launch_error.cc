#include "ops/cuda/kernels/launch_error.h"

#include "base/error.h"

namespace stoa::ops::cuda {

void launch_failed(const char* kernel, int code, const char* text, std::int64_t grid_x, std::int64_t grid_y,
                   int threads, std::size_t shared) {
  fail<DeviceError>(
      "cuda: kernel '{}' on a grid of {} x {} blocks of {} threads with {} bytes of shared memory: {} "
      "(CUDA error {})",
      kernel, grid_x, grid_y, threads, shared, text, code);
}

}  // namespace stoa::ops::cuda
