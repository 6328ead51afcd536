#include "device/arena.h"

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
    for (std::size_t c = 0; c < blocks_.size(); ++c)
      blocks_[c] = owner(static_cast<MemoryCategory>(c)).allocate(sizes_[c]);
  } catch (const DeviceError& error) {
    fail<DeviceError>("{}\nthe plan needs {} on {}:{}", error.what(),
                      format_bytes(static_cast<double>(total_bytes())), device_->name(),
                      memory_lines(sizes_));
  }
  committed_ = true;
}

TensorView Arena::view(Id id) {
  require<InternalError>(committed_ && id, "a tensor is used before the arena is committed");
  Entry& entry = entries_[id.index];
  entry.touched = true;
  auto* base = static_cast<std::byte*>(blocks_[static_cast<int>(entry.category)].data());
  void* data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(base) + entry.offset);
  return TensorView(data, entry.spec.dtype, entry.spec.shape, owner(entry.category).kind());
}

Device& Arena::owner(MemoryCategory category) const {
  return on_host(category) ? device_->host_memory() : *device_;
}

std::size_t Arena::total_bytes() const { return device_bytes(sizes_); }

namespace {

std::size_t bytes_of(const MemoryTable& table, bool host) {
  std::size_t total = 0;
  for (std::size_t c = 0; c < table.size(); ++c)
    if (on_host(static_cast<MemoryCategory>(c)) == host) total += table[c];
  return total;
}

}  // namespace

std::size_t device_bytes(const MemoryTable& table) { return bytes_of(table, false); }
std::size_t host_bytes(const MemoryTable& table) { return bytes_of(table, true); }

MemoryTable Arena::declared() const { return sizes_; }

MemoryTable Arena::touched() const {
  MemoryTable table{};
  for (const auto& entry : entries_)
    if (entry.touched) table[static_cast<int>(entry.category)] += entry.bytes;
  return table;
}

std::string memory_lines(const MemoryTable& table) {
  std::string lines;
  for (std::size_t c = 0; c < table.size(); ++c)
    if (const auto category = static_cast<MemoryCategory>(c); table[c])
      lines += fmt::format("\n  {:22} {}{}", name_of(category), format_bytes(static_cast<double>(table[c])),
                           on_host(category) ? " of host memory besides" : "");
  return lines;
}

}  // namespace stoa
