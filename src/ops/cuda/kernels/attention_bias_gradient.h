// Gradient of a relative bias: sums of score gradients along the diagonals of tiles, in a fixed order.
#pragma once

#include "ops/cuda/kernels/attention_pairs.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {

template <int kQueries, int kKeys>
struct DiagonalSums {
  using Tables = PairTables<kQueries, kKeys>;
  static constexpr int kPitch = kKeys + 1;
  float pairs[kQueries * kPitch];  // gradients of scores, 0 where a pair does not see each other
  float sums[Tables::kOffsets];

  // By all threads, when each has written its pairs: adds them to `table` [a.offsets] of this block. Offset
  // `first` is that of the last query and the first key of the tile.
  STOA_DEVICE void add_to(const Thread& t, const AttentionArgs& a, std::int64_t first, float* table) {
    t.sync();
    for (int i = t.index(); i < Tables::kOffsets; i += kTileThreads) {
      const int shift = i - Tables::offset(0, 0);
      float sum = 0;
      for (int query = shift < 0 ? -shift : 0; query < kQueries && query + shift < kKeys; ++query)
        sum += pairs[query * kPitch + query + shift];
      sums[i] = sum;
    }
    t.sync();
    // Offsets beyond the table belong to its first or last row.
    const std::int64_t row = first - a.first_offset, last = a.offsets - 1;
    for (std::int64_t i = t.index(); i < Tables::kOffsets; i += kTileThreads)
      if (row + i > 0 && row + i < last) table[row + i] += sums[i];
    const std::int64_t to_first = last == 0 ? Tables::kOffsets : 1 - row, from_last = last - row;
    if (t.warp() == 0 && to_first > 0) add_all(t, 0, to_first, table[0]);
    if (t.warp() == 1 && last > 0 && from_last < Tables::kOffsets)
      add_all(t, from_last, Tables::kOffsets, table[last]);
  }

 private:
  // By one warp.
  STOA_DEVICE void add_all(const Thread& t, std::int64_t begin, std::int64_t end, float& to) const {
    float sum = 0;
    for (std::int64_t i = (begin > 0 ? begin : 0) + t.lane(); i < end && i < Tables::kOffsets; i += 32)
      sum += sums[i];
    sum = warp_reduce<Add>(t, sum);
    if (t.lane() == 0) to += sum;
  }
};

}  // namespace stoa::ops::cuda
