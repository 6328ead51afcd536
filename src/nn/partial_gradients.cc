#include "nn/partial_gradients.h"

namespace stoa::nn {

namespace {

void sum_over(ops::OpContext& ops, comm::Communicator& group, const ParamSpec& spec, TensorView gradient) {
  for (const auto& piece : spec.shard.pieces) {
    if (!piece.shared) continue;
    const TensorView rows = gradient.slice(piece.memory_row, piece.count);
    const std::int64_t columns = piece.column_count > 0 ? piece.global.inner() : 1;
    const bool all_columns = piece.column_count == 0 || piece.column_count == columns;
    if (piece.count == piece.global[0] && all_columns) {
      group.all_reduce(rows, comm::ReduceOp::kSum, ops.stream)->wait();
      continue;
    }
    // Ranks hold different rows or columns: each adds its own to the whole tensor. There are fewer of these
    // key/value heads than ranks, so it is small.
    Scratch::Frame frame(ops.scratch);
    const TensorView whole = ops.scratch.allocate(gradient.dtype, {piece.global[0], columns}),
                     part = whole.slice(piece.begin, piece.count),
                     own = all_columns ? part : part.columns(piece.column_begin, piece.column_count),
                     matrix = rows.reshape({piece.count, own.shape[1]});
    ops::run(ops, ops::FillZero{whole});
    ops::run(ops, ops::CopyRows{.x = matrix, .index = {}, .y = own});
    group.all_reduce(whole, comm::ReduceOp::kSum, ops.stream)->wait();
    ops::run(ops, ops::CopyRows{.x = own, .index = {}, .y = matrix});
  }
}

}  // namespace

void sum_partial_gradient(ops::OpContext& ops, const parallel::ParallelContext& parallel,
                          const ParamSpec& spec, TensorView gradient) {
  for (const parallel::Group group : spec.grad_partial_over)
    if (group == parallel::Group::kTensor || group == parallel::Group::kExpertTensor)
      sum_over(ops, parallel.along(group), spec, gradient);
}

}  // namespace stoa::nn
