// A GPU in miniature, for tests: its memory is the host's, its streams are worked on later.
#pragma once

#include "comm/queue_stream.h"

namespace stoa::comm::suite {

class QueueDevice : public SharableDevice {
 public:
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string_view name() const override { return "queue"; }
  Buffer allocate(std::size_t) override { return {}; }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<QueueStream>(); }
  void copy_to_host(void*, const void*, std::size_t, Stream&) override {}
  void copy_from_host(void*, const void*, std::size_t, Stream&) override {}
  void fill_zero(void*, std::size_t, Stream&) override {}
  Device& host_memory() override { return *this; }
  void copy(void*, const void*, std::size_t, Stream&) override {}
  DeviceTransfer& transfer() override { return transfer_; }

 protected:
  void release(void*, std::size_t) noexcept override {}

 private:
  QueueTransfer transfer_;
};

}  // namespace stoa::comm::suite
