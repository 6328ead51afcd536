// Errors of the CUDA runtime as DeviceError.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace stoa::cuda {

// Throws unless `status` is success. `what`: what was tried, "copy of 4096 bytes to the device".
void check(cudaError_t status, const char* what);

template <class... Args>
void check_call(cudaError_t status, fmt::format_string<Args...> format, Args&&... args) {
  if (status != cudaSuccess) [[unlikely]]
    check(status, fmt::format(format, std::forward<Args>(args)...).c_str());
}

}  // namespace stoa::cuda
