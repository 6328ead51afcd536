// The CPU: memory of this process; work is done by the calling thread and its worker pool, at once.
#pragma once

#include "device/device.h"

namespace stoa {

class HostDevice : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kHost; }
  std::string_view name() const override { return "cpu"; }
  Buffer allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) override;
  void copy_from_host(void* device, const void* host, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* device, std::size_t bytes, Stream& stream) override;
  Device& host_memory() override { return *this; }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override;

 protected:
  void release(void* data, std::size_t bytes) noexcept override;
};

}  // namespace stoa
