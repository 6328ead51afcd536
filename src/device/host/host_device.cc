#include "device/host/host_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "device/host/inline_stream.h"

namespace stoa {

Buffer HostDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  // Pages are mapped here and touched first by whoever works on them. Huge pages spare the TLB in matrix
  // products.
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require<DeviceError>(data != MAP_FAILED, "cannot allocate {} bytes of host memory: {}", bytes,
                       std::strerror(errno));
  if (bytes >= (std::size_t{2} << 20)) ::madvise(data, bytes, MADV_HUGEPAGE);
#ifdef STOA_POISON
  std::memset(data, 0xff, bytes);  // NaN in every floating-point type
#endif
  return Buffer(*this, data, bytes);
}

std::unique_ptr<Stream> HostDevice::create_stream() { return std::make_unique<InlineStream>(); }

void HostDevice::copy_to_host(void* host, const void* device, std::size_t bytes, Stream&) {
  std::memcpy(host, device, bytes);
}
void HostDevice::copy_from_host(void* device, const void* host, std::size_t bytes, Stream&) {
  std::memcpy(device, host, bytes);
}
void HostDevice::fill_zero(void* device, std::size_t bytes, Stream&) { std::memset(device, 0, bytes); }

void HostDevice::copy(void* to, const void* from, std::size_t bytes, Stream&) {
  std::memcpy(to, from, bytes);
}

void HostDevice::release(void* data, std::size_t bytes) noexcept { ::munmap(data, bytes); }

}  // namespace stoa
