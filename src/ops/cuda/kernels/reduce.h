// Sums and maxima over groups of threads, in a fixed order.
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
  STOA_DEVICE static float of(float a, float b) { return a > b || a != a ? a : b; }  // NaN stays
};

// Over groups of `width` neighbouring lanes, a power of two up to 32; every lane gets the result.
template <class Op, class T>
STOA_DEVICE T warp_reduce(const Thread& t, T value, int width = 32) {
  for (int step = width / 2; step > 0; step /= 2) value = Op::of(value, t.shuffle_xor(value, step));
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

}  // namespace stoa::ops::cuda
