// Sums and maxima over groups of threads, in a fixed order; counts, of which no order shows.
#pragma once

#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

struct Add {
  template <class T>
  STOA_DEVICE static T of(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <class T>
  STOA_DEVICE static T of(T a, T b) {
    return a > b || a != a ? a : b;  // NaN stays
  }
};

// Two sums at once.
struct Pair {
  float first, second;
};
STOA_DEVICE Pair operator+(Pair a, Pair b) { return {a.first + b.first, a.second + b.second}; }

template <class T>
STOA_DEVICE T from_lane_xor(const Thread& t, T value, int mask) {
  return t.shuffle_xor(value, mask);
}
STOA_DEVICE Pair from_lane_xor(const Thread& t, Pair value, int mask) {
  return {t.shuffle_xor(value.first, mask), t.shuffle_xor(value.second, mask)};
}

// Over groups of `width` neighbouring lanes, a power of two up to 32; every lane gets the result.
template <class Op, class T>
STOA_DEVICE T warp_reduce(const Thread& t, T value, int width = 32) {
  for (int step = width / 2; step > 0; step /= 2) value = Op::of(value, from_lane_xor(t, value, step));
  return value;
}

// Over groups of `width` neighbouring threads: a power of two up to 32, or a multiple of 32. Every thread
// gets the result. `slots`: shared memory for one T per warp, not in use by anyone; it is free again when all
// return.
template <class Op, class T>
STOA_DEVICE T group_reduce(const Thread& t, T value, int width, T* slots) {
  if (width <= 32) return warp_reduce<Op>(t, value, width);
  value = warp_reduce<Op>(t, value);
  if (t.lane() == 0) slots[t.warp()] = value;
  t.sync();
  const int warps = width / 32, first = t.warp() / warps * warps;
  T sum = slots[first];
  for (int w = 1; w < warps; ++w) sum = Op::of(sum, slots[first + w]);
  t.sync();
  return sum;
}

template <class Op, class T>
STOA_DEVICE T block_reduce(const Thread& t, T value, T* slots) {
  return group_reduce<Op>(t, value, t.count(), slots);
}

template <class T>
struct Prefix {
  T before, all;
};
// Sums over the threads of a block that come before this one, and over all. `slots` as above.
template <class T>
STOA_DEVICE Prefix<T> block_prefix(const Thread& t, T value, T* slots) {
  T sum = value;
  for (int by = 1; by < 32; by *= 2) {
    const T other = t.shuffle_up(sum, by);
    if (t.lane() >= by) sum += other;
  }
  if (t.lane() == 31) slots[t.warp()] = sum;
  t.sync();
  Prefix<T> out{sum - value, 0};
  for (int w = 0; w < t.warps(); ++w) {
    if (w == t.warp()) out.before += out.all;
    out.all += slots[w];
  }
  t.sync();
  return out;
}

// counts[i], of `size` in shared memory, becomes how often the threads of a block called count(i) in their
// body(count).
template <class Index, class Body>
STOA_DEVICE void count_in_block(const Thread& t, std::int32_t* counts, Index size, const Body& body) {
  for (Index i = t.index(); i < size; i += t.count()) counts[i] = 0;
  t.sync();
  body([&](auto i) { t.count(counts[i], 1); });
  t.sync();
}

}  // namespace stoa::ops::cuda
