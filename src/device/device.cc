#include "device/device.h"

#include <utility>

namespace stoa {

Buffer::~Buffer() {
  if (device_ && data_) device_->release(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace stoa
