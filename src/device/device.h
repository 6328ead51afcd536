// A device owns memory and streams. The layers above never ask which kind it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/worker_pool.h"
#include "tensor/tensor_view.h"

namespace stoa {

class Device;

// Memory owned by a device; freed on destruction.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, void* data, std::size_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Marks a point in a stream's work. On the host, work is done when its call returns.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool ready() const = 0;
  virtual void wait() = 0;  // blocks the host
};

// An ordered queue of work. The host's compute stream is the rank's thread itself.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual std::unique_ptr<Event> record() = 0;
  virtual void wait(const Event& event) = 0;  // later work waits for the event
  virtual void synchronize() = 0;             // blocks the host until all work is done
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string_view name() const = 0;
  // Uninitialised memory, aligned to 4 KiB. DeviceError says how much was requested and how much was free.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Stream> create_stream() = 0;
  // Between this device and host memory, ordered on the stream.
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) = 0;
  virtual void copy_from_host(void* device, const void* host, std::size_t bytes, Stream& stream) = 0;
  virtual void fill_zero(void* device, std::size_t bytes, Stream& stream) = 0;
  // Memory of the host that copy() reaches without the host's help: pinned, where the device is not the host.
  virtual Device& host_memory() = 0;
  // From memory of this device to its host_memory(), or back. Returns at once: both are the stream's until it
  // is past.
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;

 protected:
  friend class Buffer;
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
};

}  // namespace stoa
