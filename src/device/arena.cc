#include "device/arena.h"

#include <numeric>

#include "base/console.h"

namespace stoa {

Arena::Id Arena::declare(MemoryCategory category, TensorSpec spec) {
  require<InternalError>(!committed_, "'{}' is declared after the arena was committed", spec.name);
  Entry entry{category, std::move(spec)};
  entry.bytes = aligned_bytes(entry.spec.bytes());
  entry.offset = sizes_[static_cast<int>(category)];
  sizes_[static_cast<int>(category)] += entry.bytes;
  entries_.push_back(std::move(entry));
  return {static_cast<int>(entries_.size()) - 1};
}

void Arena::commit() {
  require<InternalError>(!committed_, "the arena is committed twice");
  try {
    for (std::size_t c = 0; c < blocks_.size(); ++c) blocks_[c] = device_->allocate(sizes_[c]);
  } catch (const DeviceError& error) {
    std::string table;
    for (std::size_t c = 0; c < sizes_.size(); ++c)
      if (sizes_[c])
        table += fmt::format("\n  {:22} {}", name_of(static_cast<MemoryCategory>(c)),
                             format_bytes(static_cast<double>(sizes_[c])));
    fail<DeviceError>("{}\nthe plan needs {} on {}:{}", error.what(),
                      format_bytes(static_cast<double>(total_bytes())), device_->name(), table);
  }
  committed_ = true;
}

TensorView Arena::view(Id id) {
  require<InternalError>(committed_ && id, "a tensor is used before the arena is committed");
  Entry& entry = entries_[id.index];
  entry.touched = true;
  auto* base = static_cast<std::byte*>(blocks_[static_cast<int>(entry.category)].data());
  void* data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(base) + entry.offset);
  return TensorView(data, entry.spec.dtype, entry.spec.shape, device_->kind());
}

std::size_t Arena::total_bytes() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0});
}

MemoryTable Arena::declared() const { return sizes_; }

MemoryTable Arena::touched() const {
  MemoryTable table{};
  for (const auto& entry : entries_)
    if (entry.touched) table[static_cast<int>(entry.category)] += entry.bytes;
  return table;
}

}  // namespace stoa
