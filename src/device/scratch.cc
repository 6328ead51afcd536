#include "device/scratch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "device/meta/meta_device.h"

namespace stoa {

Scratch::Scratch(DeviceKind kind)
    : kind_(kind), base_(kDryScratchAddress), capacity_(std::numeric_limits<std::size_t>::max()) {
  require<InternalError>(kind == DeviceKind::kMeta, "a scratch stack without memory serves dry runs only");
}

Scratch::Scratch(TensorView memory)
    : kind_(memory.device), base_(reinterpret_cast<std::uintptr_t>(memory.data)), capacity_(memory.bytes()) {}

void* Scratch::allocate_bytes(std::size_t bytes) {
  const std::size_t size = aligned_bytes(bytes);
  require<InternalError>(size <= capacity_ - used_,
                         "scratch overflow: {} bytes used, {} more requested, {} planned: the dry run "
                         "executed a different program",
                         used_, size, capacity_);
  void* data = reinterpret_cast<void*>(base_ + used_);
  used_ += size;
  high_water_ = std::max(high_water_, used_);
#ifdef STOA_POISON
  if (kind_ == DeviceKind::kHost) std::memset(data, 0xff, size);
#endif
  return data;
}

TensorView Scratch::allocate(DType dtype, Shape shape) {
  void* data = allocate_bytes(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  return TensorView(data, dtype, shape, kind_);
}

void Scratch::release_to(std::size_t mark) { used_ = mark; }

}  // namespace stoa
