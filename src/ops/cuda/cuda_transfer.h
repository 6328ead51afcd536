// What ranks that share a GPU ask of it, by Stoa's own kernels.
#pragma once

#include "device/device_transfer.h"

namespace stoa::ops::cuda {

class CudaTransfer final : public DeviceTransfer {
 public:
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override;
  // DeviceError for more than 64 inputs or outputs.
  void reduce(DType type, bool maximum, std::span<const void* const> inputs, std::span<void* const> outputs,
              std::int64_t count, Stream& stream) override;
};

}  // namespace stoa::ops::cuda
