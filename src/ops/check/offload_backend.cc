#include "ops/check/offload_backend.h"

#include <algorithm>

#include "device/device_transfer.h"
#include "ops/check/extent.h"

namespace stoa::ops {

namespace {

constexpr std::size_t kGuard = 256;  // also the alignment
constexpr std::byte kPattern{0xa5};

std::size_t aligned(std::size_t bytes) { return (bytes + kGuard - 1) / kGuard * kGuard; }

}  // namespace

template class ForwardOps<OffloadBackend>;

std::string_view OffloadBackend::name() const { return inner_->name(); }

OffloadBackend::OffloadBackend(std::unique_ptr<Device> device, std::unique_ptr<Backend> inner)
    : device_(std::move(device)),
      inner_(std::move(inner)),
      stream_(device_->create_stream()),
      guard_(kGuard, kPattern) {}

void OffloadBackend::add(const TensorView& tensor, bool written) {
  const std::size_t bytes = extent(tensor);
  if (bytes == 0) return;
  if (tensor.device != DeviceKind::kHost)
    fail<InternalError>("only host tensors are offloaded, got {}", tensor.text());
  ranges_.push_back({begin_of(tensor), begin_of(tensor) + bytes, written});
}

void OffloadBackend::upload(std::size_t workspace_bytes) {
  use_in_this_thread(*device_);  // operations come from any thread, as of the host
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
      merged.back().written |= range.written;
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
  std::size_t total = 0;
  for (Range& range : ranges_) {
    range.offset = total + range.begin % kGuard;  // aligned as on the host
    total = aligned(range.offset + (range.end - range.begin)) + kGuard;
  }
  const std::size_t workspace_at = total;
  total += aligned(workspace_bytes) + kGuard;
  if (memory_.bytes() < total) {
    memory_ = Buffer();
    memory_ = device_->allocate(total);
  }
  auto* base = static_cast<std::byte*>(memory_.data());
  for (const Range& range : ranges_) {
    const std::size_t bytes = range.end - range.begin;
    device_->copy_from_host(base + range.offset, reinterpret_cast<const void*>(range.begin), bytes, *stream_);
    device_->copy_from_host(base + range.offset + bytes, guard_.data(), kGuard, *stream_);
  }
  workspace_ = workspace_bytes ? base + workspace_at : nullptr;
  device_->copy_from_host(base + workspace_at + workspace_bytes, guard_.data(), kGuard, *stream_);
  ranges_.push_back({0, 0, false, workspace_at + workspace_bytes});  // its guard is looked at too
}

void OffloadBackend::redirect(TensorView& tensor) const {
  if (extent(tensor) == 0) return;
  for (const Range& range : ranges_) {
    if (begin_of(tensor) < range.begin || begin_of(tensor) >= range.end) continue;
    tensor.data = static_cast<std::byte*>(memory_.data()) + range.offset + (begin_of(tensor) - range.begin);
    tensor.device = device_->kind();
    return;
  }
  fail<InternalError>("{} was not offloaded", tensor.text());
}

void OffloadBackend::download(const char* op) {
  const auto* base = static_cast<const std::byte*>(memory_.data());
  for (const Range& range : ranges_) {
    const std::size_t bytes = range.end - range.begin;
    if (range.written)
      device_->copy_to_host(reinterpret_cast<void*>(range.begin), base + range.offset, bytes, *stream_);
    read_.resize(kGuard);
    device_->copy_to_host(read_.data(), base + range.offset + bytes, kGuard, *stream_);
    stream_->synchronize();
    require<NumericsError>(read_ == guard_, "{}: memory behind a tensor of {} bytes was written", op, bytes);
  }
}

}  // namespace stoa::ops
