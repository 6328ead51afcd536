// Declare, then commit: all long-lived memory of a rank is declared by name and category, then allocated
// once. The declarations are the plan; `stoa plan memory` prints the same table that a run allocates.
// Categories of host memory (on_host) are allocated on the host and not part of any total of the device.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "device/device.h"
#include "tensor/tensor_spec.h"

namespace stoa {

using MemoryTable = std::array<std::size_t, static_cast<int>(MemoryCategory::kCount)>;

class Arena {
 public:
  struct Id {
    int index = -1;
    explicit operator bool() const { return index >= 0; }
  };
  static constexpr std::size_t kAlignment = 128;  // of every tensor, in bytes; counted in the tables

  explicit Arena(Device& device) : device_(&device) {}

  Id declare(MemoryCategory category, TensorSpec spec);
  // Allocates everything declared. Call once. DeviceError names the largest categories when memory does not
  // suffice.
  void commit();
  bool committed() const { return committed_; }

  // View of a declared tensor; marks it touched. InternalError before commit().
  TensorView view(Id id);
  const TensorSpec& spec(Id id) const { return entries_[id.index].spec; }

  std::size_t total_bytes() const;  // on the device
  MemoryTable declared() const;     // bytes per category
  MemoryTable touched() const;      // of those, what has been handed out by view()
  Device& device() const { return *device_; }

  struct Entry {
    MemoryCategory category;
    TensorSpec spec;
    std::size_t offset = 0;  // in its category's block
    std::size_t bytes = 0;   // aligned
    bool touched = false;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Device& owner(MemoryCategory category) const;

  Device* device_;
  std::vector<Entry> entries_;
  std::array<Buffer, static_cast<int>(MemoryCategory::kCount)> blocks_;
  MemoryTable sizes_{};
  bool committed_ = false;
};

// The totals of a table, in device memory and in host memory.
std::size_t device_bytes(const MemoryTable& table);
std::size_t host_bytes(const MemoryTable& table);

// Bytes that a tensor takes in an arena or scratch stack.
constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

// One line for each category that takes any, each after a line break: its name and its bytes.
std::string memory_lines(const MemoryTable& table);

}  // namespace stoa
