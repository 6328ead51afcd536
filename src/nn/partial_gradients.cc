#include "nn/partial_gradients.h"

namespace stoa::nn {

namespace {

void sum_over(ops::OpContext& ops, comm::Communicator& group, const ParamSpec& spec, TensorView gradient) {
  for (const auto& piece : spec.shard.pieces) {
    if (!piece.shared) continue;
    const TensorView rows = gradient.slice(piece.memory_row, piece.count);
    if (piece.count == piece.global[0]) {
      group.all_reduce(rows, comm::ReduceOp::kSum, ops.stream)->wait();
      continue;
    }
    // Ranks hold different rows: each adds its own to the whole tensor. There are fewer of these key/value
    // heads than ranks, so it is small.
    Scratch::Frame frame(ops.scratch);
    Shape shape = gradient.shape;
    shape.set(0, piece.global[0]);
    const TensorView whole = ops.scratch.allocate(gradient.dtype, shape);
    ops::run(ops, ops::FillZero{whole});
    ops::run(ops, ops::Cast{rows, whole.slice(piece.begin, piece.count)});
    group.all_reduce(whole, comm::ReduceOp::kSum, ops.stream)->wait();
    ops::run(ops, ops::Cast{whole.slice(piece.begin, piece.count), rows});
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
