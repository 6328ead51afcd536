// The most likely token of a row of logits (ops/most_likely.h), found by a block of threads.
#pragma once

#include <cmath>

#include "ops/cuda/kernels/most_likely.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {

struct FoundLogit {
  std::int32_t id;
  float logit;
};

// The largest logit of blocks of a row, and the first block that has it.
struct HighestLogit {
  float logit;
  std::int32_t block;
  STOA_DEVICE static HighestLogit of(const HighestLogit& a, const HighestLogit& b) {
    return b.logit > a.logit || (b.logit == a.logit && b.block < a.block) ? b : a;
  }
};

// A warp has a block of logits at a time. `slots`: shared memory, one for each warp, not in use by anyone; it
// is free again when all return. Every thread gets the result.
STOA_DEVICE FoundLogit most_likely_of_row(const Thread& t, const float* row, std::int64_t columns,
                                          HighestLogit* slots) {
  constexpr int kBlock = kBlockOfLogits, kEach = kBlock / 32;
  HighestLogit best{-INFINITY, 0};
  for (std::int64_t begin = std::int64_t{t.warp()} * kBlock; begin < columns;
       begin += std::int64_t{t.warps()} * kBlock) {
    float x[kEach];
    STOA_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t c = begin + t.lane() + 32 * i;
      x[i] = c < columns ? row[c] : -INFINITY;
    }
    const float first = t.shuffle(x[0], 0);
    float here = -INFINITY;
    STOA_UNROLL
    for (int i = 0; i < kEach; ++i) here = fmaxf(here, x[i]);  // NaN does not count
    here = warp_reduce<Max>(t, here);
    if (first == first && here > best.logit) best = {here, static_cast<std::int32_t>(begin / kBlock)};
  }
  if (t.lane() == 0) slots[t.warp()] = best;
  t.sync();
  for (int w = 0; w < t.warps(); ++w) best = HighestLogit::of(best, slots[w]);
  t.sync();
  // The first of the block that is not below it. Every warp finds the same.
  FoundLogit out{0, 0};
  for (std::int64_t at = std::int64_t{best.block} * kBlock; at < columns; at += 32) {
    const std::int64_t c = at + t.lane();
    const float x = c < columns ? row[c] : -INFINITY;
    const unsigned found = t.ballot(c < columns && !(x < best.logit));
    if (found == 0) continue;
    int lane = 0;
    while ((found >> lane & 1u) == 0) ++lane;
    out = {static_cast<std::int32_t>(at + lane), t.shuffle(x, lane)};
    break;
  }
  return out;
}

}  // namespace stoa::ops::cuda
