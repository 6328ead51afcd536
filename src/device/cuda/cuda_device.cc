#include "device/cuda/cuda_device.h"

#include "base/console.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"

namespace stoa::cuda {

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for GPUs");
  return count;
}

namespace {

DeviceInfo read_info(int index) {
  const int count = device_count();
  require<DeviceError>(index >= 0 && index < count, "cuda: device {} was asked for, there are {}", index,
                       count);
  cudaDeviceProp properties{};
  check_call(cudaGetDeviceProperties(&properties, index), "properties of device {}", index);
  DeviceInfo info;
  info.name = properties.name;
  info.index = index;
  info.major = properties.major, info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.largest_shared_bytes = properties.sharedMemPerBlockOptin;
  (void)cudaDriverGetVersion(&info.driver);
  (void)cudaRuntimeGetVersion(&info.runtime);
  require<DeviceError>(
      info.major >= 8,
      "cuda: device {} ({}) has compute capability {}.{}, expected 8.0 (A100, RTX 30) or later", index,
      info.name, info.major, info.minor);
  return info;
}

CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace

CudaDevice::CudaDevice(int index, bool graphs, std::unique_ptr<DeviceTransfer> transfer)
    : info_(read_info(index)), graphs_(graphs), transfer_(std::move(transfer)) {
  check_call(cudaSetDevice(index), "use of device {} ({})", index, info_.name);
}

CudaDevice::~CudaDevice() = default;

std::size_t CudaDevice::free_bytes() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "querying free memory");
  return free;
}

Buffer CudaDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    const auto text = [](std::size_t n) { return format_bytes(static_cast<double>(n)); };
    fail<DeviceError>(
        "cuda: out of memory: {} ({} bytes) asked for, {} of {} free on {}, {} held by this process",
        text(bytes), bytes, text(free_bytes()), text(info_.memory_bytes), info_.name, text(allocated_));
  }
  check_call(status, "allocation of {} bytes", bytes);
  allocated_ += bytes;
#ifdef STOA_POISON
  check(cudaMemset(data, 0xff, bytes), "poisoning of new memory");
#endif
  return Buffer(*this, data, bytes);
}

void CudaDevice::release(void* data, std::size_t bytes) noexcept {
  (void)cudaFree(data);  // waits for all work that may use it
  allocated_ -= bytes;
}

std::unique_ptr<Stream> CudaDevice::create_stream() {
  return std::make_unique<CudaStream>(info_.index, graphs_);
}

std::unique_ptr<Stream> CudaDevice::create_urgent_stream() {
  return std::make_unique<CudaStream>(info_.index, false, true);
}

void CudaDevice::use_in_this_thread() {
  check_call(cudaSetDevice(info_.index), "use of device {}", info_.index);
}

std::string CudaDevice::identity() const {
  char text[32] = {};
  check(cudaDeviceGetPCIBusId(text, sizeof text, info_.index), "querying a device's bus address");
  return text;
}

void CudaDevice::copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check_call(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cuda_stream(stream).handle()),
             "copy of {} bytes to the host", bytes);
}

void CudaDevice::copy_from_host(void* device, const void* host, std::size_t bytes, Stream& stream) {
  cuda_stream(stream).upload(device, host, bytes);
}

void CudaDevice::fill_zero(void* device, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check_call(cudaMemsetAsync(device, 0, bytes, cuda_stream(stream).handle()), "zeroing {} bytes", bytes);
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_stream(stream).handle()),
             "copy of {} bytes between the device and pinned memory", bytes);
}

}  // namespace stoa::cuda
