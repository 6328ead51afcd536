// Tiles of 16-bit attention on matrix units (Dao 2023, FlashAttention-2): rows of one head in shared memory,
// products of them by warps, and the walk over tiles with copies one tile ahead.
#pragma once

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/fragments.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {

inline constexpr int kTileThreads = 128, kTileWarps = 4;
inline constexpr std::size_t kMostTileShared = 99 << 10;  // of a block, on GPUs of sm_86, 89 and 120

// Keys of which a forward pass takes the softmax at once: where kernels agree in it, so do their sums.
template <int kMost>
constexpr int kForwardKeys = kMost <= 64    ? 64
                             : kMost <= 128 ? 32
                             : kMost <= 256 ? 16
                                            : 32;

// Sums of a warp: kM x kN pieces of 16 x 8 (fragments.h).
template <int kM, int kN>
using Sums = float[kM][kN][4];

// Rows of heads of d elements, at most kMost. What lies between d and the next multiple of 16 is 0 in shared
// memory, what lies behind is neither written nor read.
template <class T, int kMost>
struct HeadTile {
  static constexpr int kPitch = kMost + 8;  // no two of eight rows begin in one bank
  static constexpr int kSteps = kMost / 16;
  static constexpr int kSure = kMost <= 64 ? 1 : kSteps / 2;  // smaller heads have smaller tiles
  static constexpr int kChunks = kMost / 8;                   // of 16 bytes, of a row

  const Thread& t;
  const int d, steps;

  STOA_DEVICE HeadTile(const Thread& thread, int head_size)
      : t(thread), d(head_size), steps((head_size + 15) / 16) {}

  // body(at, row, column) for piece n, 8 elements, of rows.
  template <class Body>
  STOA_DEVICE void piece(T* to, int n, const Body& body) const {
    const int r = n / kChunks, c = n % kChunks * 8;
    if (c < 16 * steps) body(to + r * kPitch + c, r, c);
  }
  // By all threads: of all pieces of kRows rows.
  template <int kRows, class Body>
  STOA_DEVICE void for_pieces(T* to, const Body& body) const {
    for (int n = t.index(); n < kRows * kChunks; n += kTileThreads) piece(to, n, body);
  }

  // By all threads: kRows rows, row r from row_at(r) on, or zeros where not has(r). `wide`: addresses are
  // multiples of 16 bytes; `any`: one like that. Copies are under way when this returns.
  template <int kRows, class Has, class RowAt>
  STOA_DEVICE void load_rows(T* to, bool wide, const void* any, const Has& has, const RowAt& row_at) const {
    static_assert(kRows * kChunks % kTileThreads == 0);
    if (wide) {
      STOA_UNROLL
      for (int n = 0; n < kRows * kChunks; n += kTileThreads)
        piece(to, n + t.index(), [&](T* at, int r, int c) {
          const bool given = has(r) && c < d;
          t.copy16(at, given ? static_cast<const void*>(row_at(r) + c) : any, given);
        });
    } else {
      for_pieces<kRows>(to, [&](T* at, int r, int c) {
        const bool given = has(r) && c < d;
        store16(at, given ? first_of_8(row_at(r) + c, d - c) : Bytes16{});
      });
    }
  }
  // The same of rows [first, first + kRows) of a head; those from `end` on are zeros.
  template <int kRows>
  STOA_DEVICE void load(const AttentionArgs& a, T* to, const HeadRows& from, std::int64_t base, int head,
                        int first, int end) const {
    const T* data = static_cast<const T*>(from.data) + (base + first) * from.stride + head * d;
    load_rows<kRows>(
        to, a.wide, from.data, [&](int r) { return first + r < end; },
        [&](int r) { return data + r * from.stride; });
  }

  // sum += x y^T: 16 kM rows x, 8 kN rows y, both in shared memory.
  template <int kM, int kN>
  STOA_DEVICE void multiply_rows(const T* x, const T* y, Sums<kM, kN>& sum) const {
    STOA_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      if (s >= kSure && s >= steps) continue;
      std::uint32_t left[kM][4];
      STOA_UNROLL
      for (int m = 0; m < kM; ++m) load_fragments<false>(t, x, kPitch, 16 * m, 16 * s, true, left[m]);
      STOA_UNROLL
      for (int j = 0; j < kN; j += 2) {
        std::uint32_t right[4];
        load_fragments<false>(t, y, kPitch, 8 * j, 16 * s, false, right);
        STOA_UNROLL
        for (int m = 0; m < kM; ++m) {
          t.multiply<T>(left[m], right[0], right[1], sum[m][j]);
          t.multiply<T>(left[m], right[2], right[3], sum[m][j + 1]);
        }
      }
    }
  }

  // sum += x y: x [16 kM, 8 kN] of this warp's registers, rounded; y has 8 kN rows in shared memory.
  template <int kM, int kN>
  STOA_DEVICE void multiply(const Sums<kM, kN>& x, const T* y, Sums<kM, kMost / 8>& sum) const {
    STOA_UNROLL
    for (int j = 0; j < kN; j += 2) {
      std::uint32_t left[kM][4];
      STOA_UNROLL
      for (int m = 0; m < kM; ++m) to_fragment<T>(x[m][j], x[m][j + 1], left[m]);
      STOA_UNROLL
      for (int s = 0; s < kSteps; ++s) {
        if (s >= kSure && s >= steps) continue;
        std::uint32_t right[4];
        load_fragments<true>(t, y, kPitch, 16 * s, 8 * j, false, right);
        STOA_UNROLL
        for (int m = 0; m < kM; ++m) {
          t.multiply<T>(left[m], right[0], right[1], sum[m][2 * s]);
          t.multiply<T>(left[m], right[2], right[3], sum[m][2 * s + 1]);
        }
      }
    }
  }

  // By one warp: its 16 kM rows of a head, from row `first` on, times factor(m, half); those from `end` on
  // do not exist. They go through `own`, this many rows of shared memory that only this warp reads.
  template <int kM, class Factor>
  STOA_DEVICE void store(const AttentionArgs& a, T* own, const Sums<kM, kMost / 8>& sum, const Factor& factor,
                         const HeadRows& to, std::int64_t base, int head, int first, int end) const {
    t.sync_warp();
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float f = factor(m, half);
        T* row = own + (16 * m + sum_row(t, 2 * half)) * kPitch + sum_column(t, 0);
        STOA_UNROLL
        for (int j = 0; j < kMost / 8; ++j)
          if (j < 2 * steps)
            store4(row + 8 * j, narrow_pair<T>(sum[m][j][2 * half] * f, sum[m][j][2 * half + 1] * f));
      }
    }
    t.sync_warp();
    T* data = static_cast<T*>(to.data) + (base + first) * to.stride + head * d;
    for (int n = t.lane(); n < 16 * kM * kChunks; n += 32) {
      const int r = n / kChunks, c = n % kChunks * 8;
      if (first + r >= end || c >= d) continue;
      const T* from = own + r * kPitch + c;
      T* at = data + r * to.stride + c;
      if (a.wide)
        store16(at, load16(from));
      else
        for (int j = 0; j < 8 && c + j < d; ++j) at[j] = from[j];
    }
  }
};

// body(i, place) for i in [0, count), by all threads, when what load(i, place) has asked for is there: tile i
// in one of kStages places. With two, the next is loaded meanwhile. Copies that were asked for before are
// there for all with the first, and in any case at the end.
template <int kStages, class Load, class Body>
STOA_DEVICE void walk(const Thread& t, int count, const Load& load, const Body& body) {
  const auto start = [&](int i) {
    if (i < count) load(i, i % kStages);
    t.commit_copies();
  };
  if constexpr (kStages == 2) start(0);
  for (int i = 0; i < count; ++i) {
    start(i + kStages - 1);
    t.wait_copies<kStages - 1>();
    t.sync();
    body(i, i % kStages);
    t.sync();
  }
  t.wait_copies<0>();
  t.sync();
}

}  // namespace stoa::ops::cuda
