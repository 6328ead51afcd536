// Columns that are split among the ranks of a tensor-parallel group, brought together where a layer needs all
// of them: a norm over all heads.
#pragma once

#include "nn/pass.h"
#include "ops/elementwise.h"

namespace stoa::nn {

// y[i] = x[index[i]], or x[i] without index: matrices whose rows may be strided.
inline void copy_rows(Pass& pass, const TensorView& x, const TensorView& y, const TensorView& index = {}) {
  ops::run(pass.ops, ops::CopyRows{.x = x, .index = index, .y = y});
}

// [T, width] with this rank's `part` [T, n] (none: nothing) at columns `begin`, added to those of the other
// ranks; in scratch of the current frame. What one rank alone gives comes exactly.
inline TensorView whole_columns(Pass& pass, const TensorView& part, std::int64_t begin, const Shape& whole,
                                DType type) {
  const TensorView out = pass.ops.scratch.allocate(type, whole);
  ops::run(pass.ops, ops::FillZero{out});
  if (part) copy_rows(pass, part, out.columns(begin, part.shape[1]));
  pass.parallel.along(parallel::Axis::kTensor).all_reduce(out, comm::ReduceOp::kSum, pass.ops.stream)->wait();
  return out;
}

// The parts [T, n] of all ranks, equally wide, side by side in `whole` [T, size * n].
inline void gather_columns(Pass& pass, const parallel::TensorPlace& place, const TensorView& part,
                           const TensorView& whole) {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t rows = part.rows(), width = part.shape[1];
  TensorView own = part;
  if (!part.contiguous()) {
    own = pass.ops.scratch.allocate(part.dtype, {rows, width});
    copy_rows(pass, part, own);
  }
  const TensorView all = pass.ops.scratch.allocate(part.dtype, {place.size, rows, width});
  pass.parallel.along(parallel::Axis::kTensor).all_gather(own, all, pass.ops.stream)->wait();
  for (int r = 0; r < place.size; ++r)
    copy_rows(pass, all.slice(r, 1).reshape({rows, width}), whole.columns(r * width, width));
}
// The same in scratch of the current frame.
inline TensorView gather_columns(Pass& pass, const parallel::TensorPlace& place, const TensorView& part) {
  const TensorView whole = pass.ops.scratch.allocate(part.dtype, {part.rows(), place.size * part.shape[1]});
  gather_columns(pass, place, part, whole);
  return whole;
}

}  // namespace stoa::nn
