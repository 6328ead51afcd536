// Columns that are split among the ranks of a tensor-parallel group, brought together where a layer needs all
// of them: a norm over all heads.
#pragma once

#include "nn/copy_rows.h"

namespace stoa::nn {

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

}  // namespace stoa::nn
