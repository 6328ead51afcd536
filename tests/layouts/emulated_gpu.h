// The kernels of the CUDA backend on the block emulator, on a device that looks like a GPU.
#pragma once

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "comm/nccl/fake_nccl.h"
#include "device/device_transfer.h"
#include "device/host/host_device.h"
#include "device/host/inline_stream.h"
#include "infer/machine.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/cuda_transfer.h"
#include "ops/cuda/emulation/matmul.h"

namespace stoa::layouts {

// Its work is done when it was submitted; only what it waits for may take time.
class PatientStream final : public Stream {
 public:
  std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
  void wait(const Event& event) override {
    while (!event.ready()) std::this_thread::yield();
  }
  void synchronize() override {}
};

// Memory that the layers above must take for a GPU's: they cannot ask for its content, and new memory is NaN.
// Threads that have not chosen it may not use it.
class HiddenDevice : public SharableDevice {
 public:
  HiddenDevice() { use_in_this_thread(); }
  void use_in_this_thread() final {
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
  }
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string_view name() const override { return "emulated"; }
  Buffer allocate(std::size_t bytes) override {
    expect_chosen();
    if (bytes == 0) return {};
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* data = std::aligned_alloc(kPage, whole);
    std::memset(data, 0xff, whole);
    return Buffer(*this, data, bytes);
  }
  std::unique_ptr<Stream> create_stream() override {
    expect_chosen();
    return std::make_unique<PatientStream>();
  }
  std::unique_ptr<Stream> create_urgent_stream() override {
    expect_chosen();
    return std::make_unique<comm::suite::NativeQueue>();
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream&) override {
    expect_chosen();
    std::memcpy(host, device, bytes);
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes, Stream&) override {
    expect_chosen();
    std::memcpy(device, host, bytes);
  }
  void fill_zero(void* device, std::size_t bytes, Stream&) override {
    expect_chosen();
    std::memset(device, 0, bytes);
  }
  Device& host_memory() override { return pinned_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream&) override {
    expect_chosen();
    std::memcpy(to, from, bytes);
  }
  DeviceTransfer& transfer() override { return transfer_; }

 protected:
  void release(void* data, std::size_t) noexcept override { std::free(data); }
  void expect_chosen() {
    const std::lock_guard lock(mutex_);
    require<InternalError>(threads_.contains(std::this_thread::get_id()),
                           "a thread uses a GPU that it has not chosen");
  }

 private:
  static constexpr std::size_t kPage = 4096;

  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  ops::cuda::CudaTransfer transfer_;
  HostDevice pinned_;
};

// Linear layers are the library's for any number of tokens, so that a text has the same sums alone and among
// others.
inline infer::Machine emulated_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HiddenDevice>();
  machine.backend = std::make_unique<ops::cuda::CudaBackend>(
      std::make_shared<ops::cuda::emulation::HostMatmul>(), nullptr, machine.device->kind(),
      ops::cuda::KernelChoice{.few_tokens = false});
  machine.stream = machine.device->create_stream();
  return machine;
}

}  // namespace stoa::layouts
