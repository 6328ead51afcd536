#include "ops/check/tensor_copies.h"

#include <algorithm>
#include <cstring>

#include "ops/check/extent.h"

namespace stoa::ops {

namespace {

constexpr std::uintptr_t kAlignment = 128;

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes) {
  if (bytes == 0) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  data_ = memory_.get() + (kAlignment - address % kAlignment) % kAlignment;
}

void TensorCopies::add(const TensorView& tensor) {
  if (!tensor || extent(tensor) == 0) return;
  if (tensor.device != DeviceKind::kHost)
    fail<InternalError>("only host tensors can be checked, got {}", tensor.text());
  regions_.push_back(Region{begin_of(tensor), begin_of(tensor) + extent(tensor)});
}

void TensorCopies::make() {
  std::sort(regions_.begin(), regions_.end(),
            [](const Region& a, const Region& b) { return a.begin < b.begin; });
  std::vector<Region> merged;
  for (Region& region : regions_) {
    if (!merged.empty() && region.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, region.end);
    } else {
      merged.push_back(std::move(region));
    }
  }
  regions_ = std::move(merged);
  for (Region& region : regions_) {
    region.lead = region.begin % kAlignment;
    region.copy = AlignedBytes(region.lead + region.end - region.begin);
    std::memcpy(static_cast<std::byte*>(region.copy.data()) + region.lead,
                reinterpret_cast<const void*>(region.begin), region.end - region.begin);
  }
}

void TensorCopies::redirect(TensorView& tensor) const {
  if (!tensor || extent(tensor) == 0) return;
  const std::uintptr_t at = begin_of(tensor);
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), at,
                       [](std::uintptr_t address, const Region& region) { return address < region.begin; });
  if (after == regions_.begin()) fail<InternalError>("{} was not copied", tensor.text());
  const Region& region = *std::prev(after);
  tensor.data = static_cast<std::byte*>(region.copy.data()) + region.lead + (at - region.begin);
}

}  // namespace stoa::ops
