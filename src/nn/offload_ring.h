// Device memory that the saved activations of offloaded blocks pass through on their way to the host's memory
// and back (vDNN, 1602.08124, section 3; cpu_offloading of NeMo and Megatron, by layers). They are copied
// away behind their block's forward pass on a stream of its own, and back ahead of its backward pass on
// another. Events alone make the order: the host waits for nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "device/arena.h"

namespace stoa::nn {

// What one block saved of one microbatch.
struct Offloaded {
  TensorView host;              // table.offloaded_bytes() bytes; untouched before the first copy
  int place = -1;               // where it is on the device; -1: nowhere
  std::shared_ptr<Event> away;  // the copy to the host
  std::unique_ptr<Event> back;  // the copy from there
};

class OffloadRing {
 public:
  // A block at work, the next one, whose input it writes, and one that is being copied.
  static constexpr int kMostPlaces = 3;

  // Declares places for `blocks` offloaded blocks, the largest of `bytes` bytes.
  OffloadRing(Arena& arena, std::int64_t blocks, std::size_t bytes);
  // Of all places.
  static std::size_t bytes(std::int64_t blocks, std::size_t largest) {
    return static_cast<std::size_t>(std::min<std::int64_t>(blocks, kMostPlaces)) * aligned_bytes(largest);
  }
  int places() const { return static_cast<int>(places_.size()); }

  // Forward: the place that the block writes to, free when `compute` comes to it; and the copy of it to the
  // host.
  TensorView open(Offloaded& block, Stream& compute);
  void store(Offloaded& block, Stream& compute);
  // Backward: begins the copy to the device, for at most places() blocks that were not released; the place,
  // with its content when `compute` comes to it; and the end of its use. Blocks are released in the order in
  // which they were fetched.
  void fetch(Offloaded& block);
  TensorView await(Offloaded& block, Stream& compute);
  void release(Offloaded& block, Stream& compute);

  // A step begins: what earlier ones did is past, on all streams. (An event of a recorded step must not be
  // waited for in another.)
  void clear();

 private:
  struct Place {
    Arena::Id memory;
    std::shared_ptr<Event> free;  // none: it is
  };
  int next();
  TensorView view(const Offloaded& block);

  Arena* arena_;
  std::unique_ptr<Stream> away_, back_;
  std::vector<Place> places_;
  int last_ = -1;
};

}  // namespace stoa::nn
