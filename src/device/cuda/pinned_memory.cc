#include "device/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "device/cuda/cuda_error.h"

namespace stoa::cuda {

Buffer PinnedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check_call(cudaMallocHost(&data, bytes), "allocation of {} bytes of pinned host memory", bytes);
#ifdef STOA_POISON
  std::memset(data, 0xff, bytes);
#endif
  return Buffer(*this, data, bytes);
}

void PinnedMemory::release(void* data, std::size_t) noexcept { (void)cudaFreeHost(data); }

}  // namespace stoa::cuda
