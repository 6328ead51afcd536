// Shared by the kernels of attention over keys and values in blocks: what a task reads, and the softmax.
#pragma once

#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/cache_vectors.h"

namespace stoa::ops::cpu::STOA_ISA {

// Where the keys and values of a block of the softmax lie.
template <class Storage>
struct PagedKeys {
  const Storage *k[kBlock], *v[kBlock];
  std::int64_t count;
};

// Asks for a row of a key head ahead of its use.
STOA_INLINE void fetch_bytes(const void* row, std::int64_t bytes) {
  const auto* p = static_cast<const char*>(row);
  for (const auto* end = p + bytes; p < end; p += 64) __builtin_prefetch(p);
}

// Turns a row's scores of a block into weights; keys outside [first, end) of the block get none. `power`: the
// exponential.
template <class Power>
STOA_INLINE void paged_weights(const AttentionArgs& args, std::int64_t head, std::int64_t q_at,
                               std::int64_t k0, std::int64_t first, std::int64_t end, float* scores,
                               float* sum, float* top, float* alpha, Power power) {
  constexpr int kVectors = kBlockVectors;
  if (end <= first) {
    for (std::int64_t v = 0; v < kVectors; ++v) store(scores + v * kLanes, F{});
    *alpha = 1;
    return;
  }
  if (has_block_scores(args)) score_query(args, head, q_at, k0 + first, k0 + end, scores + first);
  F peak = splat(-kInfinity), s[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const I lane = lane_numbers() + static_cast<std::int32_t>(v * kLanes);
    const I seen = (lane >= static_cast<std::int32_t>(first)) & (lane < static_cast<std::int32_t>(end));
    s[v] = select(seen, load(scores + v * kLanes), splat(-kInfinity));
    peak = max(s[v], peak);
  }
  const float before = *top, here = reduce_max(peak), after = here > before || here != here ? here : before;
  const float fade = before == -kInfinity ? 0.0f : power(splat(before - after))[0];
  F total = load(sum) * fade;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const F weight = select(s[v] == -kInfinity, F{}, power(s[v] - after));
    total += weight;
    store(scores + v * kLanes, weight);
  }
  store(sum, total);
  *top = after;
  *alpha = fade;
}

}  // namespace stoa::ops::cpu::STOA_ISA
