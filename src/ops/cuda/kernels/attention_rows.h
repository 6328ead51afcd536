// Rows of a kernel whose blocks own queries of several heads that read the same keys, which are in blocks of
// a cache.
#pragma once

#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {

// Blocks: all groups of the same keys, which are neighbours in memory, are computed at about the same time.
inline std::int64_t group_row_blocks(const AttentionArgs& a, int tile, bool span) {
  const std::int64_t queries = span ? a.few : a.longest_q;
  return a.segments * ceil_div(queries * (a.heads / a.groups), tile) * (span ? a.spans : 1) * a.groups;
}

// kSpan: of one span of keys, of segments of a few queries; otherwise of all keys, of segments of more.
template <bool kSpan>
struct GroupRows {
  const AttentionArgs& a;
  const int each, group;  // heads of a group; the block's
  std::int64_t span, number;
  int first;  // row
  const Segment segment;

  STOA_DEVICE GroupRows(const Thread& t, const AttentionArgs& args, int tile)
      : a(args),
        each(args.heads / args.groups),
        group(static_cast<int>(t.block_x() % args.groups)),
        span(kSpan ? t.block_x() / args.groups % args.spans : 0),
        number(0),
        first(0),
        segment(args, find(t, tile)) {}

  STOA_DEVICE int count() const { return segment.queries * each; }
  STOA_DEVICE bool none() const { return first >= count() || (segment.queries <= a.few) != kSpan; }
  STOA_DEVICE bool has(int row) const { return first + row < count(); }
  STOA_DEVICE int query(int row) const { return (first + row) / each; }  // beyond the segment's where !has()
  STOA_DEVICE int head(int row) const { return group * each + (first + row) % each; }

  // Where a row's head is.
  template <class T>
  STOA_DEVICE T* place(const HeadRows& x, int row) const {
    return static_cast<T*>(x.data) + (segment.q_begin + query(row)) * x.stride + head(row) * a.d;
  }
  STOA_DEVICE float* state(int row) const {
    return segment.states(a, number, query(row), head(row)) + span * (a.d + kSpanSums);
  }
  // The keys that some row of a tile sees, of the span.
  STOA_DEVICE Segment::Range keys_of_tile(int tile) const {
    const int begin = query(0), end = query((has(tile - 1) ? tile : count() - first) - 1) + 1;
    Segment::Range range = segment.keys_of(a, begin, end - begin);
    if constexpr (kSpan) {
      const int low = static_cast<int>(span) * kKeySpan;
      if (range.begin < low) range.begin = low;
      if (range.end > low + kKeySpan) range.end = low + kKeySpan;
    }
    return range;
  }

 private:
  STOA_DEVICE std::int64_t find(const Thread& t, int tile) {
    const std::int64_t block = t.block_x() / a.groups / (kSpan ? a.spans : 1),
                       tiles = ((kSpan ? a.few : a.longest_q) * each + tile - 1) / tile;
    number = block / tiles;
    first = static_cast<int>(block % tiles) * tile;
    return number;
  }
};

}  // namespace stoa::ops::cuda
