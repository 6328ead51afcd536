// Random masks of a layer: functions of (seed, purpose, layer name) and the global index of each element.
#pragma once

#include <algorithm>
#include <string_view>

#include "nn/pass.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace stoa::nn {

// Dropout of rows of this microbatch. Where a rank holds several runs of consecutive tokens (context
// parallelism, rows of different lengths), an operation is run on each of them.
struct DropoutRows {
  ops::Dropout dropout;              // of the first token of the batch; p = 0: none
  const BatchView* batch = nullptr;  // where there is dropout
  std::int64_t first_row = 0;        // local token of row 0 of the tensor

  // Calls f(first row, rows, dropout) for every run of `rows` rows.
  template <class F>
  void each(std::int64_t rows, F&& f) const {
    if (dropout.p == 0 || (!batch->context.split() && batch->row_begin.empty())) {
      ops::Dropout run = dropout;
      run.first_token += first_row;
      return f(std::int64_t{0}, rows, run);
    }
    const auto piece = [&](std::int64_t begin, std::int64_t count, std::int64_t global) {
      const std::int64_t first = std::max(begin, first_row), end = std::min(begin + count, first_row + rows);
      if (first >= end) return;
      ops::Dropout run = dropout;
      run.first_token += global + first - begin;
      f(first - first_row, end - first, run);
    };
    if (batch->context.split())
      return parallel::for_each_run(batch->context, batch->rows, batch->length, piece);
    for (std::size_t r = 0; r + 1 < batch->row_begin.size(); ++r)
      piece(batch->row_begin[r], batch->row_begin[r + 1] - batch->row_begin[r],
            static_cast<std::int64_t>(r) * batch->length);
  }
};

// Dropout of the [T, D] tensor of this rank's tokens, or of its rows of the stream (`place`: how that is
// split); off outside training.
inline DropoutRows dropout_of(const Pass& pass, float p, RandomPurpose purpose, std::string_view layer,
                              const parallel::TensorPlace& place = {}) {
  DropoutRows out;
  if (!pass.training || p <= 0) return out;
  out.dropout.p = p;
  out.dropout.key = philox_key(pass.seed, purpose, layer);
  out.dropout.first_token = pass.batch.first_sample * pass.batch.length;
  out.batch = &pass.batch;
  out.first_row = place.first_row(pass.batch.tokens.rows());
  return out;
}

// y = x + dropout(branch); y may be x.
inline void add_branch(Pass& pass, const DropoutRows& mask, TensorView x, TensorView branch, TensorView y) {
  mask.each(y.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    ops::run(pass.ops, ops::ResidualAdd{.x = x.slice(begin, count),
                                        .branch = branch.slice(begin, count),
                                        .dropout = run,
                                        .y = y.slice(begin, count)});
  });
}

// Its backward pass: dbranch from dy, in the type of dbranch.
inline void dropout_backward(Pass& pass, const DropoutRows& mask, TensorView dy, TensorView dbranch) {
  mask.each(dy.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    ops::run(pass.ops,
             ops::DropoutBackward{
                 .dy = dy.slice(begin, count), .dropout = run, .dbranch = dbranch.slice(begin, count)});
  });
}

}  // namespace stoa::nn
