// Pieces of matrices as the matrix units take them (Thread::multiply): from shared memory, from sums in
// registers, and where a lane's sums stand.
#pragma once

#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

// The 8 x 8 pieces that begin at vector i, element q, and those 8 vectors (`down`) or 8 elements after them,
// in turn. Element q of vector i is place[i * pitch + q], or place[q * pitch + i] where kAcross. With `down`
// they are an operand a of 16 vectors; without, operands b of 8 vectors each: out[0], out[1] and out[2],
// out[3].
template <bool kAcross, class T>
STOA_DEVICE void load_fragments(const Thread& t, const T* place, int pitch, int i, int q, bool down,
                                std::uint32_t (&out)[4]) {
  const int which = t.lane() / 8, row = t.lane() % 8;
  i += (down ? which % 2 : which / 2) * 8;
  q += (down ? which / 2 : which % 2) * 8;
  t.load_matrices<kAcross>(place + (kAcross ? (q + row) * pitch + i : (i + row) * pitch + q), out);
}

// Where sum n of a lane stands in a piece of 16 x 8.
STOA_DEVICE int sum_row(const Thread& t, int n) { return t.lane() / 4 + n / 2 * 8; }
STOA_DEVICE int sum_column(const Thread& t, int n) { return t.lane() % 4 * 2 + n % 2; }

// Two neighbouring pieces of sums, rounded, as an operand a of 16 x 16.
template <class T>
STOA_DEVICE void to_fragment(const float (&left)[4], const float (&right)[4], std::uint32_t (&out)[4]) {
  out[0] = narrow_pair<T>(left[0], left[1]);
  out[1] = narrow_pair<T>(left[2], left[3]);
  out[2] = narrow_pair<T>(right[0], right[1]);
  out[3] = narrow_pair<T>(right[2], right[3]);
}

}  // namespace stoa::ops::cuda
