#include "nn/low_rank_rows.h"

#include <string>

#include "nn/adapter_policy.h"
#include "nn/embedding.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"

namespace stoa::nn {

void LowRankRows::declare(ParamList& params) {
  if (!params.adapters()) return;
  const std::vector<LowRankBranch> branches = params.adapters()->branches({kTable});
  if (branches.empty()) return;
  const auto& o = options_;
  rank_ = branches.front().rank;
  scale_ = branches.front().scale;
  const std::string name = branches.front().name;
  ParamSpec a = vocabulary_matrix(name + kA, o.vocabulary, o.padded_vocabulary, rank_, 0, o.place);
  a.adapter = true;
  a.init = {InitKind::kZeros, 0};
  a_ = params.add(std::move(a));
  ParamSpec b;
  b.name = name + kB;
  b.shard = ShardSpec::whole(b.name, {rank_, o.hidden});
  b.shard.pieces[0].shared = o.place.split();
  b.shard.pieces[0].first_copy = o.place.rank == 0;
  b.adapter = true;
  b.init = {InitKind::kNormal, 1};
  if (o.place.split()) b.grad_partial_over.push_back(parallel::Group::kTensor);
  b_ = params.add(std::move(b));
}

TensorView LowRankRows::ids_of(TensorView table) const {
  return options_.place.split() ? table.slice(0, options_.ids.count) : table;
}

void LowRankRows::scale(Pass& pass, TensorView rows) const {
  if (scale_ != 1) ops::run(pass.ops, ops::Combine{.a = scale_, .b = 0, .x = rows, .y = rows});
}

TensorView LowRankRows::inner(Pass& pass, TensorView ids) const {
  const TensorView out = pass.ops.scratch.allocate(options_.compute, {ids.rows(), rank_});
  ops::EmbeddingForward op{.tokens = ids,
                           .table = ids_of(pass.params.get(a_.value)),
                           .positions = {},
                           .position_table = {},
                           .dropout = {},
                           .y = out};
  set_part(op);
  ops::run(pass.ops, op);
  scale(pass, out);
  return out;
}

void LowRankRows::forward(Pass& pass, TensorView ids, const DropoutRows& dropout, TensorView y) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView branch = pass.ops.scratch.allocate(options_.compute, y.shape);
  ops::run(pass.ops,
           ops::LinearBackwardInput{.dy = inner(pass, ids), .w = pass.params.get(b_.value), .dx = branch});
  add_branch(pass, dropout, y, branch, y);
}

void LowRankRows::backward(Pass& pass, TensorView ids, const DropoutRows& dropout, TensorView dy) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView masked = scratch.allocate(options_.compute, dy.shape);
  dropout_backward(pass, dropout, dy, masked);
  if (b_.trained()) {
    Scratch::Frame inner_frame(scratch);
    const GradTarget b = pass.grads->target(b_.grad);
    ops::run(
        pass.ops,
        ops::LinearBackwardWeight{
            .x = masked, .dy = inner(pass, ids), .dw = b.tensor, .dbias = {}, .accumulate = b.accumulate});
    pass.grads->notify(b_.grad);
  }
  if (!a_.trained()) return;
  const TensorView du = scratch.allocate(options_.compute, {dy.rows(), rank_});
  ops::run(pass.ops, ops::LinearForward{.x = masked, .w = pass.params.get(b_.value), .bias = {}, .y = du});
  scale(pass, du);
  // Single rows are added to.
  const GradTarget a = pass.grads->target(a_.grad);
  if (!a.accumulate) ops::run(pass.ops, ops::FillZero{.y = a.tensor});
  ops::EmbeddingBackward op{.tokens = ids,
                            .positions = {},
                            .dropout = {},
                            .dy = du,
                            .dtable = ids_of(a.tensor),
                            .dposition_table = {}};
  set_part(op);
  ops::run(pass.ops, op);
  pass.grads->notify(a_.grad);
}

}  // namespace stoa::nn
