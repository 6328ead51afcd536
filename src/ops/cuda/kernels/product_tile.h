// One tile of a matrix product, by all threads of a block: out[i, j] = sum over p of a[i, p] b[j, p].
#pragma once

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {

// Vectors of `depth` elements, of which `count` are there: element p of vector i is data[i * stride + p], or
// data[p * stride + i] where kAcross. What lies beyond is 0.
template <class T, bool kAcross>
struct Vectors {
  const T* data;
  std::int64_t stride, count;
};

// By the units for single numbers, in fp32: thread (r, c) of 16 x 16 has elements (r + 16 i, c + 16 j).
template <class T>
struct ScalarTile {
  static constexpr int kRows = 64, kColumns = 64, kDepth = 16, kThreads = 256;
  static constexpr int kPitch = kRows + 1;
  static constexpr std::size_t kShared = 2 * kDepth * kPitch * sizeof(float);

  template <bool kAcross>
  STOA_DEVICE static void load(const Thread& t, float* to, const Vectors<T, kAcross>& from, std::int64_t p,
                               std::int64_t depth) {
    for (int n = t.index(); n < kRows * kDepth; n += kThreads) {
      const int i = kAcross ? n % kRows : n / kDepth, q = kAcross ? n / kRows : n % kDepth;
      const bool here = i < from.count && p + q < depth;
      const std::int64_t at = kAcross ? (p + q) * from.stride + i : i * from.stride + p + q;
      to[q * kPitch + i] = here ? static_cast<float>(widen(from.data[at])) : 0.0f;
    }
  }

  // Calls body(i, j, sum) for the elements that are there.
  template <bool kAcrossA, bool kAcrossB, class Body>
  STOA_DEVICE static void run(const Thread& t, const Vectors<T, kAcrossA>& a, const Vectors<T, kAcrossB>& b,
                              std::int64_t depth, const Body& body) {
    float *left = t.shared<float>(), *right = left + kDepth * kPitch;
    const int row = t.index() / 16, column = t.index() % 16;
    float sum[4][4] = {};
    for (std::int64_t p = 0; p < depth; p += kDepth) {
      load(t, left, a, p, depth);
      load(t, right, b, p, depth);
      t.sync();
      for (int q = 0; q < kDepth; ++q) {
        float x[4], y[4];
        STOA_UNROLL
        for (int i = 0; i < 4; ++i) {
          x[i] = left[q * kPitch + row + 16 * i];
          y[i] = right[q * kPitch + column + 16 * i];
        }
        STOA_UNROLL
        for (int i = 0; i < 4; ++i) {
          STOA_UNROLL
          for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
        }
      }
      t.sync();
    }
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      STOA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int r = row + 16 * i, c = column + 16 * j;
        if (r < a.count && c < b.count) body(r, c, sum[i][j]);
      }
    }
  }
};

}  // namespace stoa::ops::cuda
