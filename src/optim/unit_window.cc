#include "optim/unit_window.h"

#include <algorithm>

namespace stoa::optim {

UnitWindow::UnitWindow(Arena& arena, const nn::ParamList& params, const BucketLayout& layout,
                       const Options& options)
    : arena_(&arena), layout_(&layout), units_(static_cast<std::size_t>(params.units())) {
  std::vector<std::size_t> bytes(units_.size(), 0);
  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    const FlatBucket& bucket = layout.buckets()[b];
    types_.push_back(options.type(bucket));
    offsets_.push_back(0);
    if (!options.includes(bucket)) continue;
    const auto unit = static_cast<std::size_t>(bucket.unit);
    offsets_[b] = bytes[unit];
    bytes[unit] += aligned_bytes(static_cast<std::size_t>(bucket.elements) * size_of(types_[b]));
    units_[unit].buckets.push_back(static_cast<int>(b));
  }
  std::size_t largest = 0, blocks = 0;
  const auto declare = [&](const std::string& name, std::size_t size) {
    slots_.push_back({arena.declare(MemoryCategory::kCommunication,
                                    {name, DType::kU8, Shape{static_cast<std::int64_t>(size)}}),
                      -1});
    return static_cast<int>(slots_.size()) - 1;
  };
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (bytes[u] == 0) continue;
    if (params.is_block(static_cast<int>(u))) {
      largest = std::max(largest, bytes[u]);
      ++blocks;
    } else {
      units_[u].own = declare(options.name, bytes[u]);
    }
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(blocks, 2); ++i)
    turns_.push_back(declare(options.name + " of blocks", largest));
}

int UnitWindow::slot_for(int unit) const {
  const Unit& u = units_[static_cast<std::size_t>(unit)];
  if (u.own >= 0) return u.own;
  for (const int slot : turns_)
    if (slots_[static_cast<std::size_t>(slot)].unit < 0) return slot;
  for (const int slot : turns_)
    if (slot != last_) return slot;
  return turns_.front();
}

int UnitWindow::occupant(int unit) const { return slots_[static_cast<std::size_t>(slot_for(unit))].unit; }

void UnitWindow::enter(int unit) {
  const int slot = slot_for(unit);
  if (const int old = slots_[static_cast<std::size_t>(slot)].unit; old >= 0) leave(old);
  slots_[static_cast<std::size_t>(slot)].unit = unit;
  units_[static_cast<std::size_t>(unit)].slot = slot;
}

void UnitWindow::leave(int unit) {
  Unit& u = units_[static_cast<std::size_t>(unit)];
  if (u.slot < 0) return;
  slots_[static_cast<std::size_t>(u.slot)].unit = -1;
  u.slot = -1;
}

void UnitWindow::used(int unit) {
  const Unit& u = units_[static_cast<std::size_t>(unit)];
  if (u.own < 0) last_ = u.slot;
}

TensorView UnitWindow::view(int bucket) {
  const FlatBucket& b = layout_->bucket(bucket);
  const Unit& unit = units_[static_cast<std::size_t>(b.unit)];
  require<InternalError>(unit.slot >= 0, "bucket {} is not in its window", bucket);
  const TensorView memory = arena_->view(slots_[static_cast<std::size_t>(unit.slot)].memory);
  return TensorView(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(memory.data) +
                                            offsets_[static_cast<std::size_t>(bucket)]),
                    types_[static_cast<std::size_t>(bucket)], {b.elements}, memory.device);
}

}  // namespace stoa::optim
