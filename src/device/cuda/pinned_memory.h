// Page-locked memory of the host: a GPU copies to and from it by itself, behind the host's back.
#pragma once

#include "device/host/host_device.h"

namespace stoa::cuda {

class PinnedMemory final : public HostDevice {
 public:
  std::string_view name() const override { return "pinned host memory"; }
  Buffer allocate(std::size_t bytes) override;

 protected:
  void release(void* data, std::size_t bytes) noexcept override;
};

}  // namespace stoa::cuda
