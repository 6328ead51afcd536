// Heads of encoders work on some tokens of a microbatch (MaskedTargets::rows): their states out of the
// stream, and their gradients back into it. Every rank of a tensor-parallel group has all of them.
#pragma once

#include "nn/linear.h"

namespace stoa::nn {

// A layer that every rank of a tensor-parallel group holds, on rows that all of them have.
Linear whole_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, double deviation,
                    parallel::TensorPlace place, bool bias = true);

// All rows of the stream, of which x are this rank's, as `type`: x itself, or in scratch of the current
// frame.
TensorView all_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x, DType type);

// Rows `index` [M] of the stream, of which x are this rank's, as `type`: [M, hidden] in scratch of the
// current frame.
TensorView pick_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x, TensorView index,
                     DType type);

// The same of rows that the host knows.
TensorView pick_rows(Pass& pass, const parallel::TensorPlace& place, TensorView x,
                     std::span<const std::int32_t> rows, DType type);

// The stream's gradient into x, this rank's rows of it: of picked rows that of `gradients`
// [MaskedTargets::rows + 1, hidden], whose last row is zero and stands for all others.
void scatter_rows(Pass& pass, const parallel::TensorPlace& place, TensorView gradients, TensorView x);

}  // namespace stoa::nn
