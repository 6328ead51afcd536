// How long the copies of offloaded activations keep a chunk waiting, beyond what its own computation covers
// (nn/offload_ring.h: three places that blocks take in turn, a stream for each way).
#pragma once

#include <cstdint>

namespace stoa::plan {

struct OffloadedChunk {
  double offloaded = 0, kept = 0;    // layers; the offloaded ones come first
  double copy = 0;                   // seconds of one layer on the host link, one way
  double forward = 0, backward = 0;  // seconds of one layer
  double end = 0;                    // of the head, forward and backward
  bool turns = false;                // its backward pass follows its forward pass: the end of the model
};

// Seconds of a microbatch.
struct OffloadWait {
  double forward = 0, backward = 0;
};
OffloadWait offload_wait(const OffloadedChunk& chunk);

}  // namespace stoa::plan
