// Shared by the kernels of attention over keys and values in blocks: what a task reads, and the softmax.
#pragma once

#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/cache_vectors.h"

namespace stoa::ops::cpu::STOA_ISA {

// Where the keys and values of a block of the softmax are.
template <class Storage>
struct PagedKeys {
  const Storage *k[kBlock], *v[kBlock];
  std::int64_t count = 0, row_bytes = 0;

  // Those from key k0 of the segment, before `end`: a head's keys of a block are neighbours.
  void find(const AttentionArgs& args, const PagedHeads& heads, std::int64_t group, std::int64_t k0,
            std::int64_t end) {
    count = end - k0 < kBlock ? end - k0 : kBlock;
    row_bytes = heads.width * static_cast<std::int64_t>(sizeof(Storage));
    std::int64_t block = k0 / heads.block_rows, inside = k0 - block * heads.block_rows;
    for (std::int64_t j = 0; j < count; ++block, inside = 0) {
      const std::int64_t row = (heads.blocks[block] * args.groups + group) * heads.block_rows + inside,
                         left = j + heads.block_rows - inside, last = left < count ? left : count;
      const Storage* key = static_cast<const Storage*>(args.k.data) + row * heads.width;
      const Storage* value = static_cast<const Storage*>(args.v.data) + row * heads.width;
      for (; j < last; ++j, key += heads.width, value += heads.width) {
        k[j] = key;
        v[j] = value;
      }
    }
  }

  // Ask for keys or values [first, end) ahead of their use: those of the next block, a few at a time between
  // the products of this one. A core has few places for requests to its first cache: products would wait for
  // many at once, so this asks for the second cache.
  void fetch_keys(std::int64_t first, std::int64_t end) const { fetch(k, first, end); }
  void fetch_values(std::int64_t first, std::int64_t end) const { fetch(v, first, end); }

 private:
  void fetch(const Storage* const* rows, std::int64_t first, std::int64_t end) const {
    for (std::int64_t j = first; j < (end < count ? end : count); ++j) {
      const auto* p = reinterpret_cast<const char*>(rows[j]);
      for (const auto* last = p + row_bytes; p < last; p += 64) __builtin_prefetch(p, 0, 2);
    }
  }
};

// body(first key, keys, keys of the next block) for each block of the softmax that a task reads. The body
// asks for what the next block needs.
template <class Storage, class Body>
[[gnu::always_inline]] inline void for_key_blocks(const AttentionArgs& args, const PagedHeads& heads,
                                                  std::int64_t first_key, std::int64_t end_key,
                                                  std::int64_t last_key, Body body) {
  const std::int64_t group = heads.first_head / (args.heads / args.groups);
  if (first_key >= end_key) return;
  PagedKeys<Storage> blocks[2];
  blocks[0].find(args, heads, group, first_key, last_key);
  blocks[0].fetch_keys(0, kBlock);
  blocks[0].fetch_values(0, kBlock);
  for (std::int64_t k0 = first_key, i = 0; k0 < end_key; k0 += kBlock, i = 1 - i) {
    PagedKeys<Storage>& next = blocks[1 - i];
    next.count = 0;
    if (k0 + kBlock < end_key) next.find(args, heads, group, k0 + kBlock, last_key);
    body(k0, blocks[i], next);
  }
}

// The larger of two scores, NaN where `here` is.
STOA_INLINE F higher(F here, F before) { return select((here > before) | (here != here), here, before); }
STOA_INLINE float higher(float here, float before) { return here > before || here != here ? here : before; }

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
  const float before = *top, here = reduce_max(peak), after = higher(here, before);
  const float fade = before == after        ? 1.0f  // exactly; a power of 0 is only nearly 1
                     : before == -kInfinity ? 0.0f
                                            : power(splat(before - after))[0];
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
