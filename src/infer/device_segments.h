// Segments of attention in device memory: declared once, refilled for every pass.
#pragma once

#include <string>

#include "device/arena.h"
#include "nn/pass.h"

namespace stoa::infer {

class DeviceSegments {
 public:
  // Room for `capacity` segments of a block.
  DeviceSegments(Arena& arena, const std::string& name, std::int64_t capacity,
                 const parallel::ContextBlock& block);

  // Shapes alone, for a dry run: as many as there is room for.
  ops::AttentionSegments dry() const;
  ops::AttentionSegments stage(const parallel::ContextSegments& host, Stream& stream) const;

 private:
  Arena* arena_;
  std::int64_t capacity_, longest_q_, longest_k_;
  Arena::Id q_begin_, k_begin_, k_count_, sample_, position_, behind_;
};

// Appends a segment of `queries` rows of queries after those before it and the keys from k_begin on; sample
// and position count for dropout alone.
void add_segment(parallel::ContextSegments& to, std::int64_t queries, std::int64_t k_begin, std::int64_t keys,
                 std::int64_t sample, std::int64_t position);

}  // namespace stoa::infer
