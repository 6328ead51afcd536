#include "nn/low_rank_experts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/moe.h"

namespace stoa::nn {

// `by_expert`: the same branch of every expert held.
ParamSpec LowRankExperts::a_spec(const ExpertMatrices& m, const std::vector<LowRankBranch>& by_expert) const {
  ParamSpec out;
  const LowRankBranch& first = by_expert.front();
  out.name = first.name + ".lora_A.weight";
  out.adapter = true;
  out.init = first.init;
  out.copies = parallel::Group::kExpertData;
  const bool copied = !m.narrows && m.place.tensor_size > 1;
  for (const LowRankBranch& branch : by_expert) {
    ShardPiece piece;
    piece.name = branch.name + ".lora_A.weight";
    piece.global = {branch.rank, m.inputs};
    piece.count = branch.rank;
    piece.memory_row = static_cast<std::int64_t>(out.shard.pieces.size()) * branch.rank;
    piece.column_begin = m.narrows ? m.columns.begin : 0;
    piece.column_count = m.held_inputs;
    piece.shared = copied;
    piece.first_copy = !copied || m.place.tensor_rank == 0;
    out.shard.pieces.push_back(std::move(piece));
  }
  out.shard.local = {static_cast<std::int64_t>(by_expert.size()) * first.rank, m.held_inputs};
  if (copied) out.grad_partial_over.push_back(parallel::Group::kExpertTensor);
  return out;
}

ParamSpec LowRankExperts::b_spec(const ExpertMatrices& m, const std::vector<LowRankBranch>& by_expert) const {
  ParamSpec out;
  const LowRankBranch& first = by_expert.front();
  out.name = first.name + ".lora_B.weight";
  out.adapter = true;
  out.init = {InitKind::kZeros, 0};
  out.copies = parallel::Group::kExpertData;
  const bool copied = m.narrows && m.place.tensor_size > 1;
  std::int64_t row = 0;
  for (const LowRankBranch& branch : by_expert)
    for (const std::string& part : branch.pieces) {
      ShardPiece piece;
      piece.name = part + ".lora_B.weight";
      piece.global = {m.outputs, branch.rank};
      piece.begin = m.narrows ? 0 : m.columns.begin;
      piece.count = m.held_outputs;
      piece.memory_row = row;
      piece.column_count = branch.rank;
      piece.shared = copied;
      piece.first_copy = !copied || m.place.tensor_rank == 0;
      row += piece.count;
      out.shard.pieces.push_back(std::move(piece));
    }
  out.shard.local = {row, first.rank};
  if (copied) out.grad_partial_over.push_back(parallel::Group::kExpertTensor);
  if (first.b_rate != 1) out.scales.assign(out.shard.pieces.size(), {.rate = first.b_rate});
  return out;
}

void LowRankExperts::declare(ParamList& params, const ExpertMatrices& m) {
  if (!params.adapters()) return;
  std::vector<std::vector<LowRankBranch>> by_branch;  // then by expert
  for (std::int64_t e = m.experts.begin; e < m.experts.end(); ++e) {
    std::vector<std::string> pieces;
    for (const std::string& part : m.parts)
      pieces.push_back(fmt::format("{}.experts.{}.{}", m.layer, e, part));
    const auto branches = params.adapters()->branches(pieces);
    if (e == m.experts.begin) by_branch.resize(branches.size());
    require<ConfigError>(branches.size() == by_branch.size(),
                         "'{}': adapters are for all experts of a layer or for none", m.layer);
    for (std::size_t b = 0; b < branches.size(); ++b) by_branch[b].push_back(branches[b]);
  }
  outputs_ = static_cast<std::int64_t>(m.parts.size()) * m.held_outputs;
  for (const auto& by_expert : by_branch) {
    const LowRankBranch& first = by_expert.front();
    require<ConfigError>(first.dropout == 0,
                         "'{}': adapters of experts take no dropout, whose mask would depend on where their "
                         "rows are; set adapter_dropout to 0, or exclude the experts",
                         m.layer);
    for (const LowRankBranch& other : by_expert)
      require<ConfigError>(other.rank == first.rank && other.scale == first.scale,
                           "'{}': the adapters of its experts have rank {} and {}, or different alphas: give "
                           "all experts the same",
                           m.layer, first.rank, other.rank);
    // The name without the expert's number: "layers.0.moe.experts.3.up" begins at part "up".
    const std::string prefix = fmt::format("{}.experts.{}.", m.layer, m.experts.begin);
    const auto part = std::find(m.parts.begin(), m.parts.end(), first.pieces.front().substr(prefix.size()));
    branches_.push_back({.rank = first.rank,
                         .scale = first.scale,
                         .begin = (part - m.parts.begin()) * m.held_outputs,
                         .outputs = static_cast<std::int64_t>(first.pieces.size()) * m.held_outputs,
                         .a = params.add(a_spec(m, by_expert)),
                         .b = params.add(b_spec(m, by_expert))});
  }
}

TensorView LowRankExperts::zeros(Pass& pass, DType type, Shape shape) {
  const TensorView out = pass.ops.scratch.allocate(type, shape);
  ops::run(pass.ops, ops::FillZero{out});
  return out;
}

TensorView LowRankExperts::inner(Pass& pass, const Branch& branch, TensorView x, TensorView sorted) {
  const TensorView out = zeros(pass, x.dtype, {x.rows(), branch.rank});
  ops::run(pass.ops, ops::GroupedLinearForward{
                         .x = x, .w = pass.params.get(branch.a.value), .sorted_experts = sorted, .y = out});
  if (branch.scale != 1) ops::run(pass.ops, ops::Combine{.a = branch.scale, .b = 0, .x = out, .y = out});
  return out;
}

TensorView LowRankExperts::columns(Pass& pass, const Branch& branch, TensorView dy) const {
  if (branch.outputs == outputs_) return dy;
  const TensorView out = pass.ops.scratch.allocate(dy.dtype, {dy.rows(), branch.outputs});
  ops::run(pass.ops, ops::CopyRows{.x = dy.columns(branch.begin, branch.outputs), .index = {}, .y = out});
  return out;
}

TensorView LowRankExperts::inner_gradient(Pass& pass, const Branch& branch, TensorView dy,
                                          TensorView sorted) const {
  const TensorView out = zeros(pass, dy.dtype, {dy.rows(), branch.rank});
  ops::run(pass.ops, ops::GroupedLinearBackwardInput{.dy = columns(pass, branch, dy),
                                                     .w = pass.params.get(branch.b.value),
                                                     .sorted_experts = sorted,
                                                     .dx = out});
  if (branch.scale != 1) ops::run(pass.ops, ops::Combine{.a = branch.scale, .b = 0, .x = out, .y = out});
  return out;
}

void LowRankExperts::forward(Pass& pass, TensorView x, TensorView sorted, TensorView y) const {
  for (const Branch& branch : branches_) {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView u = inner(pass, branch, x, sorted),
                     out = zeros(pass, y.dtype, {y.rows(), branch.outputs});
    ops::run(pass.ops, ops::GroupedLinearForward{
                           .x = u, .w = pass.params.get(branch.b.value), .sorted_experts = sorted, .y = out});
    TensorView whole = out;
    if (branch.outputs != outputs_) {
      whole = zeros(pass, y.dtype, y.shape);
      ops::run(pass.ops,
               ops::CopyRows{.x = out, .index = {}, .y = whole.columns(branch.begin, branch.outputs)});
    }
    ops::run(pass.ops, ops::AddTo{.x = whole, .y = y});
  }
}

void LowRankExperts::backward_input(Pass& pass, TensorView dy, TensorView sorted, TensorView dx) const {
  for (const Branch& branch : branches_) {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView part = zeros(pass, dx.dtype, dx.shape);
    ops::run(pass.ops, ops::GroupedLinearBackwardInput{.dy = inner_gradient(pass, branch, dy, sorted),
                                                       .w = pass.params.get(branch.a.value),
                                                       .sorted_experts = sorted,
                                                       .dx = part});
    ops::run(pass.ops, ops::AddTo{.x = part, .y = dx});
  }
}

template <class Body>
void LowRankExperts::products(Pass& pass, const GroupedRows& rows, const Body& body) const {
  std::size_t number = 0;
  for (const Branch& branch : branches_) {
    Scratch::Frame frame(pass.ops.scratch);
    if (branch.a.trained())
      body(branch.a, GroupedRows{rows.x, inner_gradient(pass, branch, rows.dy, rows.sorted), rows.sorted},
           number);
    if (branch.b.trained())
      body(branch.b,
           GroupedRows{inner(pass, branch, rows.x, rows.sorted), columns(pass, branch, rows.dy), rows.sorted},
           number + 1);
    number += 2;
  }
}

void LowRankExperts::backward_weight(Pass& pass, const GroupedRows& all) const {
  products(pass, all, [&](const Param& matrices, const GroupedRows& rows, std::size_t) {
    const GradTarget target = pass.grads->target(matrices.grad);
    ops::run(pass.ops, ops::GroupedLinearBackwardWeight{.x = rows.x,
                                                        .dy = rows.dy,
                                                        .sorted_experts = rows.sorted,
                                                        .dw = target.tensor,
                                                        .accumulate = target.accumulate});
    notify_gradient(pass, matrices);
  });
}

std::vector<TensorView> LowRankExperts::carry(Pass& pass) const {
  std::vector<TensorView> out;
  for (const Branch& branch : branches_) {
    out.push_back(carry_of(pass, branch.a, branch.rank));
    out.push_back(carry_of(pass, branch.b, branch.outputs));
  }
  return out;
}

void LowRankExperts::add_weight_gradient(Pass& pass, const GroupedRows& all, const GradientPart& part,
                                         const std::vector<TensorView>& carry) const {
  products(pass, all, [&](const Param& matrices, const GroupedRows& rows, std::size_t number) {
    add_gradient_part(pass, matrices, rows, part, carry[number]);
  });
}

void LowRankExperts::end_weight_gradient(Pass& pass) const {
  for (const Branch& branch : branches_) {
    notify_gradient(pass, branch.a);
    notify_gradient(pass, branch.b);
  }
}

}  // namespace stoa::nn
