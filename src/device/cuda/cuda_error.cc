#include "device/cuda/cuda_error.h"

#include "device/no_device_error.h"

namespace stoa::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // errors that do not destroy the context are forgotten with this one
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    const auto version = [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
    const std::string message = fmt::format(
        "cuda: {}: {} (built for CUDA {}; {})", what, cudaGetErrorString(status), version(runtime),
        driver == 0 ? std::string("no NVIDIA driver is installed here")
                    : fmt::format("the driver supports CUDA {}", version(driver)));
    if (status == cudaErrorNoDevice || driver == 0) throw NoDeviceError(message);
    throw DeviceError(message);
  }
  fail<DeviceError>("cuda: {}: {} (CUDA error {})", what, cudaGetErrorString(status),
                    static_cast<int>(status));
}

}  // namespace stoa::cuda
