// Device buffers through which the saved activations of offloaded blocks move to host memory and back (vDNN,
// 1602.08124, section 3; cpu_offloading of NeMo and Megatron, by layers). One stream copies them to the host
// after their block's forward pass, another copies them back ahead of its backward pass. Only events order
// the copies: the host never waits.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "device/arena.h"

namespace stoa::nn {

// What a block saved for a microbatch.
struct Offloaded {
  TensorView host;              // table.offloaded_bytes() bytes; untouched before the first copy
  int place = -1;               // its buffer on the device; -1: none
  std::shared_ptr<Event> away;  // the copy to the host
  std::unique_ptr<Event> back;  // the copy from there
};

class OffloadRing {
 public:
  // For the running block, the next one, whose input it writes, and one that is being copied.
  static constexpr int kMostPlaces = 3;

  // Declares buffers for `blocks` offloaded blocks, the largest of `bytes` bytes.
  OffloadRing(Arena& arena, std::int64_t blocks, std::size_t bytes);
  // Bytes of all buffers together.
  static std::size_t bytes(std::int64_t blocks, std::size_t largest) {
    return static_cast<std::size_t>(std::min<std::int64_t>(blocks, kMostPlaces)) * aligned_bytes(largest);
  }
  int places() const { return static_cast<int>(places_.size()); }

  // Forward: open() returns the buffer for a block, free by the time `compute` reaches this point; store()
  // starts its copy to the host.
  TensorView open(Offloaded& block, Stream& compute);
  void store(Offloaded& block, Stream& compute);
  // Backward: fetch() starts the copy to the device, for at most places() blocks that are not released yet;
  // await() returns the buffer, filled by the time `compute` reaches this point; release() ends its use.
  // Blocks are released in the order of fetch().
  void fetch(Offloaded& block);
  TensorView await(Offloaded& block, Stream& compute);
  void release(Offloaded& block, Stream& compute);

  // Called at the start of a step, when earlier work on all streams is complete. (Events recorded in one step
  // must not be waited for in another.)
  void clear();

 private:
  struct Place {
    Arena::Id memory;
    std::shared_ptr<Event> free;  // none: it is free
  };
  int next();
  TensorView view(const Offloaded& block);

  Arena* arena_;
  std::unique_ptr<Stream> away_, back_;
  std::vector<Place> places_;
  int last_ = -1;
};

}  // namespace stoa::nn
