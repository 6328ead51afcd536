// An NVIDIA GPU. Streams do not wait for each other or for the legacy stream; order is made by events alone.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/pinned_memory.h"
#include "device/device_transfer.h"

namespace stoa::cuda {

struct DeviceInfo {
  std::string name;
  int index = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0, l2_bytes = 0, largest_shared_bytes = 0;
  int driver = 0, runtime = 0;  // CUDA versions, 1000 * major + 10 * minor
};

int device_count();  // that this process sees; NoDeviceError where there is none, or no driver

class CudaDevice final : public SharableDevice {
 public:
  // NoDeviceError as of device_count(); DeviceError: no such device, or one older than compute capability
  // 8.0.
  CudaDevice(int index, bool graphs, std::unique_ptr<DeviceTransfer> transfer);
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string_view name() const override { return info_.name; }
  DeviceTransfer& transfer() override { return *transfer_; }
  const DeviceInfo& info() const { return info_; }

  Buffer allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  // Without recordings of its own: it takes part in those of streams that it waits for.
  std::unique_ptr<Stream> create_urgent_stream() override;
  void use_in_this_thread() override;
  std::string identity() const override;  // its place on the bus
  // Host memory may be reused when a call returns: what goes to the device passes through pinned memory
  // that belongs to the stream. What comes from it has arrived when the stream is synchronised.
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) override;
  void copy_from_host(void* device, const void* host, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* device, std::size_t bytes, Stream& stream) override;
  Device& host_memory() override { return pinned_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override;

  std::size_t allocated_bytes() const { return allocated_; }
  std::size_t free_bytes() const;

 protected:
  void release(void* data, std::size_t bytes) noexcept override;

 private:
  DeviceInfo info_;
  const bool graphs_;  // of its streams
  const std::unique_ptr<DeviceTransfer> transfer_;
  PinnedMemory pinned_;
  std::size_t allocated_ = 0;
};

}  // namespace stoa::cuda
