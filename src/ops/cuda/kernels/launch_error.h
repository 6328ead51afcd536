#pragma once

#include <cstddef>
#include <cstdint>

namespace stoa::ops::cuda {

// Throws DeviceError; defined in launch_error.cc, which may use the host's error types. `code` is the CUDA
// error.
[[noreturn]] void launch_failed(const char* kernel, int code, const char* text, std::int64_t grid_x,
                                std::int64_t grid_y, int threads, std::size_t shared);

}  // namespace stoa::ops::cuda
