// A device without memory: addresses are numbers that are never dereferenced. Plans of any size run on it.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace stoa {

// The addresses of memory that does not exist. Operations of a dry run compare addresses (Checker::apart): a
// tensor in the arena and one on the scratch stack must not seem to overlap.
inline constexpr std::uintptr_t kMetaMemoryAddress = std::uintptr_t{1} << 20;
inline constexpr std::uintptr_t kDryScratchAddress = std::uintptr_t{1} << 62;  // 4 EiB of a plan below it

class MetaDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kMeta; }
  std::string_view name() const override { return "meta"; }
  Buffer allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  void copy_to_host(void* host, const void* device, std::size_t bytes,
                    Stream& stream) override;  // gives zeros
  void copy_from_host(void*, const void*, std::size_t, Stream&) override {}
  void fill_zero(void*, std::size_t, Stream&) override {}
  Device& host_memory() override { return *this; }
  void copy(void*, const void*, std::size_t, Stream&) override {}

  std::size_t allocated_bytes() const { return allocated_; }

 protected:
  void release(void* data, std::size_t bytes) noexcept override;

 private:
  std::size_t allocated_ = 0;
  std::uintptr_t next_ = kMetaMemoryAddress;
};

}  // namespace stoa
