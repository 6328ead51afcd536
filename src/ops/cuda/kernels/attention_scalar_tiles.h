// Tiles of attention in fp32, without matrix units.
#pragma once

#include <cmath>

#include "ops/cuda/kernels/attention_softmax.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {

inline constexpr int kScalarThreads = 128;

STOA_DEVICE float& head_element(const HeadRows& rows, std::int64_t row, int column) {
  return static_cast<float*>(rows.data)[row * rows.stride + column];
}

// A block owns kTile rows (queries or keys) and walks tiles of the other side. kScalarThreads / kTile threads
// share a row: each has every kShare-th of the other side's scores, and every kShare-th column of what is
// summed.
template <int kTile_, int kMost>
struct Tiles {
  static constexpr int kTile = kTile_;
  static constexpr int kShare = kScalarThreads / kTile;
  static constexpr int kScores = kTile / kShare;
  static constexpr int kColumns = kMost / kShare;

  const Thread& t;
  const int d, stride, row, share;

  STOA_DEVICE Tiles(const Thread& thread, int head_size)
      : t(thread),
        d(head_size),
        stride(head_size | 1),  // odd: no two rows begin in one bank
        row(thread.index() / kShare),
        share(thread.index() % kShare) {}

  STOA_DEVICE static constexpr std::size_t tile_floats(int head_size) {
    return static_cast<std::size_t>(kTile) * static_cast<std::size_t>(head_size | 1);
  }
  STOA_DEVICE float* tile(int which) const { return t.shared<float>() + which * kTile * stride; }

  // Rows [first, first + kTile) of one head; those from `end` on are zeros.
  STOA_DEVICE void load(float* to, const HeadRows& from, std::int64_t base, int head, int first,
                        int end) const {
    for (int i = t.index(); i < kTile * d; i += kScalarThreads) {
      const int r = i / d, c = i - r * d;
      to[r * stride + c] = first + r < end ? head_element(from, base + first + r, head * d + c) : 0.0f;
    }
  }
  // own[row] · other[j] for the scores of this thread: j = share + kShare * s.
  STOA_DEVICE void dots(const float* own, const float* other, float (&out)[kScores]) const {
    STOA_UNROLL
    for (int s = 0; s < kScores; ++s) out[s] = 0;
    for (int c = 0; c < d; ++c) {
      const float x = own[row * stride + c];
      STOA_UNROLL
      for (int s = 0; s < kScores; ++s) out[s] = fmaf(x, other[(share + kShare * s) * stride + c], out[s]);
    }
  }
  // sum[columns of this thread] += scores[row][j] * other[j].
  STOA_DEVICE void add(const float* scores, const float* other, float (&sum)[kColumns]) const {
    for (int j = 0; j < kTile; ++j) {
      const float p = scores[row * (kTile + 1) + j];
      STOA_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const int column = share + kShare * c;
        if (column < d) sum[c] = fmaf(p, other[j * stride + column], sum[c]);
      }
    }
  }
  STOA_DEVICE void store(const HeadRows& to, std::int64_t at, int head, const float (&sum)[kColumns],
                         float factor) const {
    STOA_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int column = share + kShare * c;
      if (column < d) head_element(to, at, head * d + column) = sum[c] * factor;
    }
  }
};

// The softmax of a thread's row as tiles of keys come.
template <class Work>
struct ScalarSoftmax {
  static constexpr int kTile = Work::kTile;
  float top = kLowestScore, sum = 0, out[Work::kColumns];

  STOA_DEVICE ScalarSoftmax() { clear(); }
  STOA_DEVICE void clear() {
    top = kLowestScore, sum = 0;
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) out[c] = 0;
  }
  // Scores of this thread (those of hidden keys are -infinity) become probabilities up to a factor of the
  // row; times factor(column of the tile) they go to `shared`, for Tiles::add().
  template <class Factor>
  STOA_DEVICE void add(const Work& w, float (&s)[Work::kScores], float* shared, const Factor& factor) {
    float high = top, part = 0;
    STOA_UNROLL
    for (int j = 0; j < Work::kScores; ++j) high = Max::of(high, s[j]);
    high = warp_reduce<Max>(w.t, high, Work::kShare);
    const float shrink = expf(top - high);
    top = high;
    STOA_UNROLL
    for (int j = 0; j < Work::kScores; ++j) {
      const int column = w.share + Work::kShare * j;
      const float p = expf(s[j] - high);
      part += p;
      shared[w.row * (kTile + 1) + column] = p == 0 ? 0 : p * factor(column);
    }
    sum = fmaf(sum, shrink, warp_reduce<Add>(w.t, part, Work::kShare));
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) out[c] *= shrink;
  }
  // Adds the span of keys that follows.
  STOA_DEVICE void join(const ScalarSoftmax& span) {
    const JoinedTops joined(top, span.top);
    top = joined.after, sum = joined.of(sum, span.sum);
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) out[c] = joined.of(out[c], span.out[c]);
  }
  STOA_DEVICE float factor() const { return sum == 0 ? 0.0f : 1.0f / sum; }
  STOA_DEVICE float lse() const { return sum == 0 ? -INFINITY : top + logf(sum); }
};

// Calls body with the tile and the largest head size: large heads take smaller tiles, for shared memory.
template <class Body>
void with_scalar_tiles(int d, Body&& body) {
  if (d <= 64)
    body(Width<32>{}, Width<64>{});
  else if (d <= 128)
    body(Width<32>{}, Width<128>{});
  else
    body(Width<16>{}, Width<256>{});
}

inline std::size_t scalar_shared_bytes(int tile, int d, int tiles, int scores, int vectors) {
  return sizeof(float) *
         static_cast<std::size_t>(tiles * tile * (d | 1) + scores * tile * (tile + 1) + vectors * tile);
}

}  // namespace stoa::ops::cuda
