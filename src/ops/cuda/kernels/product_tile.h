// One tile of a matrix product, by all threads of a block: out[i, j] = sum over p of a[i, p] b[j, p].
#pragma once

#include <type_traits>

#include "ops/cuda/kernels/fragments.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {

// `count` vectors of `depth` elements: element p of vector i is data[i * stride + p], or data[p * stride + i]
// with kAcross. Elements beyond are read as 0.
template <class T, bool kAcross>
struct Vectors {
  const T* data;
  std::int64_t stride, count;
};

// Sums begin at 0.
struct FromZero {
  STOA_DEVICE float operator()(int, int) const { return 0; }
};

// fp32, without matrix units: thread (r, c) of 16 x 16 has elements (r + 16 i, c + 16 j).
struct ScalarTile {
  static constexpr int kRows = 64, kColumns = 64, kDepth = 16, kThreads = 256;
  static constexpr int kPitch = kRows + 1;
  static constexpr std::size_t kShared = 2 * kDepth * kPitch * sizeof(float);

  template <bool kAcross>
  STOA_DEVICE static void load(const Thread& t, float* to, const Vectors<float, kAcross>& from,
                               std::int64_t p, std::int64_t depth) {
    for (int n = t.index(); n < kRows * kDepth; n += kThreads) {
      const int i = kAcross ? n % kRows : n / kDepth, q = kAcross ? n / kRows : n % kDepth;
      const bool here = i < from.count && p + q < depth;
      const std::int64_t at = kAcross ? (p + q) * from.stride + i : i * from.stride + p + q;
      to[q * kPitch + i] = here ? from.data[at] : 0.0f;
    }
  }

  // Calls body(i, j, sum) for the elements that are there; their sums begin at start(i, j).
  template <bool kAcrossA, bool kAcrossB, class Body, class Start = FromZero>
  STOA_DEVICE static void run(const Thread& t, const Vectors<float, kAcrossA>& a,
                              const Vectors<float, kAcrossB>& b, std::int64_t depth, const Body& body,
                              const Start& start = {}) {
    float *left = t.shared<float>(), *right = left + kDepth * kPitch;
    const int row = t.index() / 16, column = t.index() % 16;
    float sum[4][4];
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      STOA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int r = row + 16 * i, c = column + 16 * j;
        sum[i][j] = r < a.count && c < b.count ? start(r, c) : 0.0f;
      }
    }
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

// 16-bit elements by matrix units, sums in fp32; or codes of 8 bits, which become 16-bit elements when they
// are read. Each of 2 x 4 warps has 64 x 32 elements. What is multiplied next is read while this is: wide
// elements are copied into the next but one of three places, others go through registers into the other of
// two. `kWide`: depth or, across, the count are multiples of 8, so are strides, and addresses of 16 bytes (of
// codes, of 8).
template <class T, bool kWide, int kStep = 32>
struct MatrixTile {
  static constexpr int kRows = 128, kColumns = 128, kDepth = kStep, kThreads = 256;
  // Elements between vectors, or across between their elements: no two of eight rows begin in one bank.
  template <bool kAcross>
  static constexpr int kPitch = kAcross ? kRows + 8 : kDepth + 8;
  static constexpr int kPlace = kRows * kPitch<false>;  // elements of either operand
  static constexpr int kPlaces = kWide ? 3 : 2;
  static constexpr std::size_t kShared = kPlaces * 2 * kPlace * sizeof(T);
  static constexpr int kPieces = kRows * kDepth / 8 / kThreads;  // of 16 bytes, of a thread

  // Where the n-th piece of 16 bytes begins: vector i, element q.
  struct Piece {
    int i, q;
  };
  template <bool kAcross>
  STOA_DEVICE static Piece piece(const Thread& t, int n) {
    const int at = t.index() + n * kThreads;
    return kAcross ? Piece{at % (kRows / 8) * 8, at / (kRows / 8)}
                   : Piece{at / (kDepth / 8), at % (kDepth / 8) * 8};
  }

  template <class S, bool kAcross>
  STOA_DEVICE static void read(const Thread& t, const Vectors<S, kAcross>& from, std::int64_t p,
                               std::int64_t depth, Bytes16 (&to)[kPieces]) {
    static_assert(kWide || sizeof(S) == sizeof(T), "codes are read eight at a time");
    STOA_UNROLL
    for (int n = 0; n < kPieces; ++n) {
      const Piece at = piece<kAcross>(t, n);
      const std::int64_t i = at.i, q = p + at.q;
      const S* begin = from.data + (kAcross ? q * from.stride + i : i * from.stride + q);
      const std::int64_t given =
          kAcross ? (q < depth ? from.count - i : 0) : (i < from.count ? depth - q : 0);
      to[n] = Bytes16{};
      if constexpr (sizeof(S) == 1) {
        if (given > 0) to[n] = widened(begin);
      } else if constexpr (kWide) {
        if (given > 0) to[n] = load16(begin);
      } else {
        to[n] = first_of_8(begin, given);
      }
    }
  }
  template <class S>
  STOA_DEVICE static Bytes16 widened(const S* eight) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(eight);
    const std::uint32_t codes[2] = {words[0], words[1]};
    Bytes16 out;
    STOA_UNROLL
    for (int j = 0; j < 8; ++j)
      put<T>(out, j, widen(S{static_cast<std::uint8_t>(codes[j / 4] >> (8 * (j % 4)))}));
    return out;
  }
  template <bool kAcross>
  STOA_DEVICE static void store(const Thread& t, const Bytes16 (&from)[kPieces], T* to) {
    STOA_UNROLL
    for (int n = 0; n < kPieces; ++n) {
      const Piece at = piece<kAcross>(t, n);
      store16(to + (kAcross ? at.q * kPitch<true> + at.i : at.i * kPitch<false> + at.q), from[n]);
    }
  }
  // Begins to copy what read() and store() move.
  template <bool kAcross>
  STOA_DEVICE static void copy(const Thread& t, const Vectors<T, kAcross>& from, std::int64_t p,
                               std::int64_t depth, T* to) {
    STOA_UNROLL
    for (int n = 0; n < kPieces; ++n) {
      const Piece at = piece<kAcross>(t, n);
      const std::int64_t i = at.i, q = p + at.q;
      const bool given = i < from.count && q < depth;
      const T* begin = given ? from.data + (kAcross ? q * from.stride + i : i * from.stride + q) : from.data;
      t.copy16(to + (kAcross ? at.q * kPitch<true> + at.i : at.i * kPitch<false> + at.q), begin, given);
    }
  }

  using Sums = float[4][4][4];
  // sum += the product of what is in a place.
  template <bool kAcrossA, bool kAcrossB>
  STOA_DEVICE static void multiply(const Thread& t, const T* place, Sums& sum) {
    const int first_row = t.warp() / 4 * 64, first_column = t.warp() % 4 * 32;
    STOA_UNROLL
    for (int q = 0; q < kDepth; q += 16) {
      std::uint32_t x[4][4], y[2][4];
      STOA_UNROLL
      for (int i = 0; i < 4; ++i)
        load_fragments<kAcrossA>(t, place, kPitch<kAcrossA>, first_row + 16 * i, q, true, x[i]);
      STOA_UNROLL
      for (int j = 0; j < 2; ++j)
        load_fragments<kAcrossB>(t, place + kPlace, kPitch<kAcrossB>, first_column + 16 * j, q, false, y[j]);
      STOA_UNROLL
      for (int i = 0; i < 4; ++i) {
        STOA_UNROLL
        for (int j = 0; j < 4; ++j)
          t.multiply<T>(x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1], sum[i][j]);
      }
    }
  }
  template <bool kAcrossA, bool kAcrossB>
  STOA_DEVICE static void run_copied(const Thread& t, const Vectors<T, kAcrossA>& a,
                                     const Vectors<T, kAcrossB>& b, std::int64_t depth, T* places,
                                     Sums& sum) {
    const auto begin = [&](std::int64_t p, int place) {
      if (p < depth) {
        copy(t, a, p, depth, places + place * 2 * kPlace);
        copy(t, b, p, depth, places + place * 2 * kPlace + kPlace);
      }
      t.commit_copies();
    };
    STOA_UNROLL
    for (int n = 0; n < kPlaces - 1; ++n) begin(n * kDepth, n);
    int turn = 0;
    for (std::int64_t p = 0; p < depth; p += kDepth) {
      t.template wait_copies<kPlaces - 2>();
      t.sync();  // this place is complete, and no thread still reads the one before it
      begin(p + (kPlaces - 1) * kDepth, turn == 0 ? kPlaces - 1 : turn - 1);
      multiply<kAcrossA, kAcrossB>(t, places + turn * 2 * kPlace, sum);
      turn = turn == kPlaces - 1 ? 0 : turn + 1;
    }
    t.template wait_copies<0>();
  }
  template <class A, bool kAcrossA, class B, bool kAcrossB>
  STOA_DEVICE static void run_through_registers(const Thread& t, const Vectors<A, kAcrossA>& a,
                                                const Vectors<B, kAcrossB>& b, std::int64_t depth, T* places,
                                                Sums& sum) {
    Bytes16 left[kPieces], right[kPieces];
    const auto fetch = [&](std::int64_t p) {
      read(t, a, p, depth, left);
      read(t, b, p, depth, right);
    };
    const auto put = [&](T* place) {
      store<kAcrossA>(t, left, place);
      store<kAcrossB>(t, right, place + kPlace);
    };
    if (depth > 0) {
      fetch(0);
      put(places);
      t.sync();
    }
    int turn = 0;
    for (std::int64_t p = 0; p < depth; p += kDepth) {
      const bool more = p + kDepth < depth;
      if (more) fetch(p + kDepth);
      multiply<kAcrossA, kAcrossB>(t, places + turn * 2 * kPlace, sum);
      turn = 1 - turn;
      if (more) put(places + turn * 2 * kPlace);
      t.sync();
    }
  }

  template <class A, bool kAcrossA, class B, bool kAcrossB, class Body, class Start = FromZero>
  STOA_DEVICE static void run(const Thread& t, const Vectors<A, kAcrossA>& a, const Vectors<B, kAcrossB>& b,
                              std::int64_t depth, const Body& body, const Start& start = {}) {
    const int first_row = t.warp() / 4 * 64, first_column = t.warp() % 4 * 32;
    // Calls each(i, j, n, row, column) for the elements of this thread that are there.
    const auto for_each = [&](const auto& each) {
      STOA_UNROLL
      for (int i = 0; i < 4; ++i) {
        STOA_UNROLL
        for (int j = 0; j < 4; ++j) {
          STOA_UNROLL
          for (int n = 0; n < 4; ++n) {
            const int r = first_row + 16 * i + sum_row(t, n), c = first_column + 8 * j + sum_column(t, n);
            if (r < a.count && c < b.count) each(i, j, n, r, c);
          }
        }
      }
    };
    Sums sum = {};
    for_each([&](int i, int j, int n, int r, int c) { sum[i][j][n] = start(r, c); });
    if constexpr (kWide && std::is_same_v<A, T> && std::is_same_v<B, T>)
      run_copied(t, a, b, depth, t.shared<T>(), sum);
    else
      run_through_registers(t, a, b, depth, t.shared<T>(), sum);
    for_each([&](int i, int j, int n, int r, int c) { body(r, c, sum[i][j][n]); });
  }
};

template <class T, bool kWide>
using ProductTile = std::conditional_t<sizeof(T) == 4, ScalarTile, MatrixTile<T, kWide>>;

}  // namespace stoa::ops::cuda
