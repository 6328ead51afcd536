// Last-in-first-out memory for temporaries. A dry stack (without memory) finds the high-water mark for the
// real one.
#pragma once

#include <cstddef>

#include "device/arena.h"

namespace stoa {

class Scratch {
 public:
  // Dry: any size fits, addresses are numbers.
  explicit Scratch(DeviceKind kind = DeviceKind::kMeta);
  // Real: at most memory.bytes().
  explicit Scratch(TensorView memory);

  TensorView allocate(DType dtype, Shape shape);
  void* allocate_bytes(std::size_t bytes);

  std::size_t used() const { return used_; }
  std::size_t high_water() const { return high_water_; }
  std::size_t capacity() const { return capacity_; }

  // Everything allocated during a frame's life is freed when it ends.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), mark_(scratch.used_) {}
    ~Frame() { scratch_.release_to(mark_); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    const std::size_t mark_;
  };

 private:
  void release_to(std::size_t mark);

  DeviceKind kind_;
  std::uintptr_t base_;
  std::size_t capacity_;
  std::size_t used_ = 0, high_water_ = 0;
};

}  // namespace stoa
