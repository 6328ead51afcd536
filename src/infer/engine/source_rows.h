// What a pass of an encoder-decoder has besides the tokens of its targets: the sources that it reads, whose
// rows come first, and where every target finds keys and values of its source.
#pragma once

#include <span>
#include <vector>

#include "device/arena.h"
#include "infer/engine/pass_plan.h"
#include "infer/machine.h"
#include "nn/pass.h"

namespace stoa::infer {

class SourceRows {
 public:
  SourceRows(Arena& arena, const PassLimits& limits);

  // Appends the tokens of the sources that segments read, and their positions.
  static void append(std::span<const PassSegment> segments, std::vector<std::int32_t>& tokens,
                     std::vector<std::int32_t>& positions);

  // The two parts of a pass, which refer to each other.
  struct Parts {
    nn::BatchView source, target;
    Parts() = default;
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;
  };
  // Divides `whole`, which begins with what append() gave and has the segments of the targets. `slots`
  // becomes where the keys and values of sources go (nn::KvCache).
  void split(Machine& machine, Arena& arena, std::span<const PassSegment> segments, nn::BatchView& whole,
             Parts& parts, TensorView& slots) const;

 private:
  const std::int64_t block_tokens_;
  Arena::Id q_begin_, k_begin_, k_count_;  // of the sources among themselves
  Arena::Id cross_blocks_, cross_count_;   // of what targets see
  Arena::Id slots_;
};

}  // namespace stoa::infer
