// The softmax of attention as keys come: Milakov and Gimelshein 2018, "Online normalizer calculation for
// softmax". And how those of spans of keys become one.
#pragma once

#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/attention_tiles.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {

// What sums have to be multiplied by where one with the largest score `top` is added to one with `before`:
// both get the larger of them, `after`.
struct JoinedTops {
  float after, kept, added;
  STOA_DEVICE JoinedTops(float before, float top)
      : after(fmaxf(before, top)), kept(expf(before - after)), added(expf(top - after)) {}
  STOA_DEVICE float of(float sum, float more) const { return of(sum, kept, more, added); }
  STOA_DEVICE static float of(float sum, float kept, float more, float added) {
    return fmaf(sum, kept, rounded_product(more, added));
  }
};

// Of 16 kM rows of a warp on matrix units: largest score, sum of exp(score - top), and the sum of those times
// values, 8 kPieces columns of it.
template <int kM, int kPieces>
struct MatrixSoftmax {
  float top[kM][2], sum[kM][2];  // of the lane's rows; each lane sums its own columns
  Sums<kM, kPieces> out;

  STOA_DEVICE MatrixSoftmax() { clear(); }
  STOA_DEVICE void clear() {
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      top[m][0] = top[m][1] = kLowestScore, sum[m][0] = sum[m][1] = 0;
      STOA_UNROLL
      for (int j = 0; j < kPieces; ++j) out[m][j][0] = out[m][j][1] = out[m][j][2] = out[m][j][3] = 0;
    }
  }
  // Scores become probabilities up to a factor of the row, which all that was summed has too.
  template <int kN>
  STOA_DEVICE void add(const Thread& t, Sums<kM, kN>& s) {
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float high = top[m][half], part = 0;
        STOA_UNROLL
        for (int j = 0; j < kN; ++j) high = fmaxf(high, fmaxf(s[m][j][2 * half], s[m][j][2 * half + 1]));
        high = warp_reduce<Max>(t, high, 4);
        const float shrink = fast_exp(top[m][half] - high);
        top[m][half] = high;
        STOA_UNROLL
        for (int j = 0; j < kN; ++j) {
          STOA_UNROLL
          for (int n = 2 * half; n < 2 * half + 2; ++n) part += s[m][j][n] = fast_exp(s[m][j][n] - high);
        }
        sum[m][half] = fmaf(sum[m][half], shrink, part);
        STOA_UNROLL
        for (int j = 0; j < kPieces; ++j) out[m][j][2 * half] *= shrink, out[m][j][2 * half + 1] *= shrink;
      }
    }
  }
  // The lanes' sums of a row become one.
  STOA_DEVICE void add_lanes(const Thread& t) {
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) sum[m][half] = warp_reduce<Add>(t, sum[m][half], 4);
    }
  }
  // Adds the span of keys that follows, after add_lanes().
  STOA_DEVICE void join(const MatrixSoftmax& span) {
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const JoinedTops joined(top[m][half], span.top[m][half]);
        top[m][half] = joined.after;
        sum[m][half] = joined.of(sum[m][half], span.sum[m][half]);
        STOA_UNROLL
        for (int j = 0; j < kPieces; ++j) {
          STOA_UNROLL
          for (int n = 2 * half; n < 2 * half + 2; ++n)
            out[m][j][n] = joined.of(out[m][j][n], span.out[m][j][n]);
        }
      }
    }
  }
};

}  // namespace stoa::ops::cuda
