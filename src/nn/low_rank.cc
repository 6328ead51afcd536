#include "nn/low_rank.h"

#include <algorithm>

#include "nn/adapter_rows.h"
#include "nn/dropout.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace stoa::nn {

ParamSpec LowRank::a_spec(const LinearOptions& o, const std::vector<LowRankBranch>& branches) const {
  ParamSpec out;
  out.name = o.name + ".lora_A.weight";
  out.adapter = true;
  out.init = branches.front().init;
  const bool copied = on_every_rank(o, LinearSplit::kInputs);
  std::int64_t row = 0;
  for (const LowRankBranch& branch : branches) {
    ShardPiece piece;
    piece.name = branch.name + ".lora_A.weight";
    piece.global = {branch.rank, o.inputs};
    piece.count = branch.rank;
    piece.memory_row = row;
    piece.column_begin = columns_.begin;
    piece.column_count = columns_.count;
    piece.shared = copied;
    piece.first_copy = !copied || o.place.rank == 0;
    row += branch.rank;
    out.shard.pieces.push_back(std::move(piece));
  }
  out.shard.local = {row, columns_.count};
  // Each rank knows the gradients of its outputs, or of its rows of the stream.
  if (copied && (o.split == LinearSplit::kOutputs || o.place.splits_stream()))
    out.grad_partial_over.push_back(parallel::Group::kTensor);
  return out;
}

ParamSpec LowRank::b_spec(const LinearOptions& o, const LowRankBranch& branch) const {
  ParamSpec out = output_rows(o, {branch.name, branch.pieces}, ".lora_B.weight", branch.rank);
  out.init = {InitKind::kZeros, 0};
  if (branch.b_rate != 1) out.scales.assign(branch.pieces.size(), {.rate = branch.b_rate});
  return out;
}

// The norms of the rows of W replace the ones where W is known (infer/read_weights.h).
ParamSpec LowRank::magnitude_spec(const LinearOptions& o, const LowRankBranch& branch) const {
  ParamSpec out = output_rows(o, {branch.name, branch.pieces}, kMagnitude);
  out.init = {InitKind::kOnes, 0};
  out.decay = false;
  return out;
}

void LowRank::declare(ParamList& params, const LinearOptions& o) {
  if (!params.adapters()) return;
  std::vector<std::string> pieces;
  for (const LinearPiece& piece : o.pieces) pieces.push_back(piece.name);
  const std::vector<LowRankBranch> branches = params.adapters()->branches(pieces);
  if (branches.empty()) return;
  name_ = o.name;
  inputs_ = o.inputs;
  columns_ = o.split == LinearSplit::kInputs ? o.columns : parallel::Part{0, o.inputs};
  if (o.split == LinearSplit::kWhole) rows_place_ = o.place;
  dropout_ = branches.front().dropout;
  a_ = params.add(a_spec(o, branches));
  has_magnitudes_ = branches.front().magnitude;
  splits_inputs_ = o.split == LinearSplit::kInputs;
  std::int64_t row = 0, covered = 0;
  for (const LinearPiece& piece : o.pieces) outputs_ += piece.rows.count + piece.padding;
  for (const LowRankBranch& branch : branches) {
    require<InternalError>(branch.dropout == dropout_, "'{}': branches with different dropout", o.name);
    require<InternalError>(branch.magnitude == has_magnitudes_, "'{}': a branch without magnitudes", o.name);
    const std::size_t first = first_piece(o, branch.name, branch.pieces);
    Branch out{.row = row, .rank = branch.rank, .b = params.add(b_spec(o, branch)), .magnitude = {}};
    if (has_magnitudes_) out.magnitude = params.add(magnitude_spec(o, branch));
    for (std::size_t p = 0; p < first + branch.pieces.size(); ++p)
      (p < first ? out.begin : out.outputs) += o.pieces[p].rows.count + o.pieces[p].padding;
    if (runs_.empty() || runs_.back().scale != branch.scale)
      runs_.push_back({.first = branches_.size(), .row = row, .scale = branch.scale});
    ++runs_.back().count;
    runs_.back().rank += branch.rank;
    branches_.push_back(out);
    row += branch.rank;
    covered += out.outputs;
  }
  covers_all_ = covered == outputs_;
}

TensorView LowRank::rows_of_a(Pass& pass, const Run& run) const {
  return pass.params.get(a_.value).slice(run.row, run.rank);
}

void LowRank::scale(Pass& pass, const Run& run, TensorView inner) {
  if (run.scale != 1) ops::run(pass.ops, ops::Combine{.a = run.scale, .b = 0, .x = inner, .y = inner});
}

TensorView LowRank::inner(Pass& pass, const Run& run, TensorView x) const {
  const TensorView out = pass.ops.scratch.allocate(x.dtype, {x.rows(), run.rank});
  ops::run(pass.ops, ops::LinearForward{.x = x, .w = rows_of_a(pass, run), .bias = {}, .y = out});
  scale(pass, run, out);
  return out;
}

// A mask counts elements of the whole input: a rank with some of its columns computes it for all of them.
TensorView LowRank::masked(Pass& pass, TensorView x, std::int64_t begin) const {
  Scratch& scratch = pass.ops.scratch;
  const TensorView out = scratch.allocate(x.dtype, {x.rows(), inputs_});
  TensorView whole = x;
  if (columns_.count != inputs_ || !x.contiguous()) {
    whole = scratch.allocate(x.dtype, out.shape);
    ops::run(pass.ops, ops::FillZero{whole});
    ops::run(pass.ops,
             ops::CopyRows{.x = x, .index = {}, .y = whole.columns(columns_.begin, columns_.count)});
  }
  DropoutRows mask = dropout_of(pass, dropout_, RandomPurpose::kHiddenDropout, name_ + ".lora", rows_place_);
  mask.first_row += begin;
  dropout_backward(pass, mask, whole, out);
  return columns_.count == inputs_ ? out : out.columns(columns_.begin, columns_.count);
}

TensorView LowRank::dropped(Pass& pass, TensorView x, std::int64_t begin) const {
  return drops(pass) ? masked(pass, x, begin) : x;
}

void LowRank::forward(Pass& pass, TensorView x, TensorView y, std::int64_t begin) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView branch = pass.ops.scratch.allocate(y.dtype, y.shape), input = dropped(pass, x, begin);
  add_branches(pass, input, branch, y);
}

LowRank::Joined LowRank::joined(Pass& pass, TensorView x, std::int64_t outputs) const {
  if (!pass.training || has_magnitudes_ || runs_.size() != 1 || outputs != outputs_) return {};
  const Run& run = runs_.front();
  const TensorView rows = inner(pass, run, dropped(pass, x));
  if (branches_.size() == 1 && covers_all_) return {rows, pass.params.get(branches_.front().b.value)};
  // Every branch has its rows of the matrix, and its columns.
  const TensorView matrix = pass.ops.scratch.allocate(x.dtype, {outputs_, run.rank});
  ops::run(pass.ops, ops::FillZero{matrix});
  for (const Branch& b : branches_)
    ops::run(pass.ops, ops::CopyRows{.x = pass.params.get(b.b.value),
                                     .index = {},
                                     .y = inner_columns(matrix.slice(b.begin, b.outputs), run, b)});
  return {rows, matrix};
}

LowRank::Joined LowRank::joined_gradient(Pass& pass, const Gradient& gradient) const {
  if (has_magnitudes_ || runs_.size() != 1 || drops(pass)) return {};
  return {gradient.inner.front(), rows_of_a(pass, runs_.front())};
}

// `branch`: in scratch, as y.
void LowRank::add_branches(Pass& pass, TensorView input, TensorView branch, TensorView y) const {
  if (!covers_all_) ops::run(pass.ops, ops::FillZero{branch});
  for (const Run& run : runs_) {
    const TensorView u = inner(pass, run, input);
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Branch& b = branches_[i];
      ops::run(pass.ops, ops::LinearForward{.x = inner_columns(u, run, b),
                                            .w = pass.params.get(b.b.value),
                                            .bias = {},
                                            .y = branch.columns(b.begin, b.outputs)});
    }
  }
  ops::run(pass.ops, ops::AddTo{.x = branch, .y = y});
}

LowRank::Gradient LowRank::gradient(Pass& pass, TensorView w, TensorView dy) const {
  Gradient out{.dy = dy, .sum = dy, .base = dy, .inner = {}, .inverse_norms = {}};
  if (has_magnitudes_) {
    const Scales own = scales(pass, w);
    out.inverse_norms = own.inverse_norms;
    out.sum = pass.ops.scratch.allocate(dy.dtype, dy.shape);
    scale_columns(pass, own, dy, {}, out.sum, false);
    if (!drops(pass)) out.base = out.sum;
  }
  for (const Run& run : runs_) {
    const TensorView du = pass.ops.scratch.allocate(dy.dtype, {dy.rows(), run.rank});
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Branch& b = branches_[i];
      ops::run(pass.ops, ops::LinearBackwardInput{.dy = out.sum.columns(b.begin, b.outputs),
                                                  .w = pass.params.get(b.b.value),
                                                  .dx = inner_columns(du, run, b)});
    }
    scale(pass, run, du);
    out.inner.push_back(du);
  }
  return out;
}

void LowRank::backward_input(Pass& pass, const Gradient& gradient, TensorView w, TensorView dx,
                             std::int64_t begin) const {
  Scratch::Frame frame(pass.ops.scratch);
  const bool drops = this->drops(pass);
  const TensorView sum = drops ? pass.ops.scratch.allocate(dx.dtype, dx.shape) : dx;
  // W reads x with dropout, too, where its outputs are scaled.
  if (drops && has_magnitudes_) backward_dropped_base(pass, gradient, w, sum);
  for (std::size_t r = 0; r < runs_.size(); ++r)
    ops::run(pass.ops, ops::LinearBackwardInput{.dy = gradient.inner[r],
                                                .w = rows_of_a(pass, runs_[r]),
                                                .dx = sum,
                                                .accumulate = !drops || has_magnitudes_ || r > 0});
  if (!drops) return;
  const TensorView kept = masked(pass, sum, begin);
  if (!kept.contiguous()) ops::run(pass.ops, ops::CopyRows{.x = kept, .index = {}, .y = sum});
  ops::run(pass.ops, ops::AddTo{.x = kept.contiguous() ? kept : sum, .y = dx});
}

void LowRank::backward_weight(Pass& pass, const Gradient& gradient, TensorView w, TensorView x,
                              const RowPiece& piece) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView input = dropped(pass, x, piece.begin);
  if (a_.trained()) {
    const GradTarget a = pass.grads->target(a_.grad);
    for (std::size_t r = 0; r < runs_.size(); ++r)
      ops::run(pass.ops, ops::LinearBackwardWeight{.x = input,
                                                   .dy = gradient.inner[r],
                                                   .dw = a.tensor.slice(runs_[r].row, runs_[r].rank),
                                                   .dbias = {},
                                                   .accumulate = a.accumulate || !piece.first});
    if (piece.last) pass.grads->notify(a_.grad);
  }
  for (const Run& run : runs_) {
    const TensorView u = inner(pass, run, input);
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Branch& branch = branches_[i];
      if (!branch.b.trained()) continue;
      const GradTarget b = pass.grads->target(branch.b.grad);
      ops::run(pass.ops, ops::LinearBackwardWeight{.x = inner_columns(u, run, branch),
                                                   .dy = gradient.sum.columns(branch.begin, branch.outputs),
                                                   .dw = b.tensor,
                                                   .dbias = {},
                                                   .accumulate = b.accumulate || !piece.first});
      if (piece.last) pass.grads->notify(branch.b.grad);
    }
  }
  if (has_magnitudes_) backward_magnitudes(pass, gradient, w, input);
}

void LowRank::add_to(Pass& pass, TensorView w, TensorView out) const {
  for (const Run& run : runs_)
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Branch& b = branches_[i];
      Scratch::Frame frame(pass.ops.scratch);
      const TensorView scaled = pass.ops.scratch.allocate(out.dtype, {b.outputs, b.rank});
      ops::run(pass.ops, ops::Cast{.x = pass.params.get(b.b.value), .y = scaled});
      scale(pass, run, scaled);
      ops::run(pass.ops, ops::LinearBackwardInput{.dy = scaled,
                                                  .w = pass.params.get(a_.value).slice(b.row, b.rank),
                                                  .dx = out.slice(b.begin, b.outputs),
                                                  .accumulate = true});
    }
  if (has_magnitudes_) scale_rows(pass, w, out);
}

}  // namespace stoa::nn
