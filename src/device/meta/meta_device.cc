#include "device/meta/meta_device.h"

#include <cstring>

#include "device/host/inline_stream.h"

namespace stoa {

Buffer MetaDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = reinterpret_cast<void*>(next_);
  next_ += (bytes + 4095) / 4096 * 4096;
  allocated_ += bytes;
  return Buffer(*this, data, bytes);
}

std::unique_ptr<Stream> MetaDevice::create_stream() { return std::make_unique<InlineStream>(); }

void MetaDevice::copy_to_host(void* host, const void*, std::size_t bytes, Stream&) {
  std::memset(host, 0, bytes);
}

void MetaDevice::release(void*, std::size_t bytes) noexcept { allocated_ -= bytes; }

}  // namespace stoa
