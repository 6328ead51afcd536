#include "nn/normed_branch.h"

#include "nn/dropout.h"
#include "ops/elementwise.h"

namespace stoa::nn {

NormedBranch::NormedBranch(const NormedBranchOptions& o, std::unique_ptr<Sublayer> layer)
    : options_(o),
      layer_(std::move(layer)),
      after_(o.name + "." + o.after_name, o.norm, o.hidden, o.place, o.place.splits_stream()) {
  if (o.norm_before)
    before_.emplace(o.name + "." + o.before_name, o.norm, o.hidden, o.place, o.place.splits_stream());
}

DropoutRows NormedBranch::dropout(const Pass& pass) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout,
                    options_.name + "." + options_.label, options_.place);
}

void NormedBranch::declare(ParamList& params, ActivationTable& table, std::int64_t tokens, int input) {
  const auto& o = options_;
  const std::int64_t rows = o.place.stream_rows(tokens);  // the layer sees all tokens
  const auto activation = [&](const char* name, DType type, std::int64_t columns, Producer producer,
                              void (NormedBranch::*make)(Pass&, Saved&) const, bool weight_input = false) {
    return table.declare({.tensor = {o.name + "." + o.label + "." + name, type, {rows, columns}},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  input_ = input;
  if (before_) before_->declare(params);
  const Producer read = o.reads_block_input && !before_ ? Producer::kCast : Producer::kNorm;
  read_ = activation("read", o.precision.compute, o.hidden, read, &NormedBranch::make_read, true);
  if (before_)
    before_stats_ =
        activation("statistics before", o.precision.vectors(), 2, Producer::kNorm, &NormedBranch::make_read);
  layer_->declare(params, table, tokens, o.precision, read_);
  after_.declare(params);
  branch_ =
      activation("branch", o.precision.compute, o.hidden, Producer::kLinear, &NormedBranch::make_branch);
  after_stats_ = activation("statistics after", o.precision.vectors(), 2, Producer::kNorm,
                            &NormedBranch::make_after_statistics);
}

void NormedBranch::make_read(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), y = saved.put(pass, read_);
  if (before_) {
    before_->forward(pass, x, y, pass.training ? saved.put(pass, before_stats_) : TensorView());
    pass.show(options_.name + "." + options_.before_name, ".output", y);
  } else {
    ops::run(pass.ops, ops::Cast{.x = x, .y = y});
  }
}

void NormedBranch::make_branch(Pass& pass, Saved& saved) const {
  saved.get(pass, layer_->last());
  const TensorView branch = saved.put(pass, branch_);
  Scratch::Frame frame(pass.ops.scratch);
  layer_->forward(pass, saved, branch);
  pass.show(options_.name + "." + options_.label, ".output", branch);
}

void NormedBranch::make_after_statistics(Pass& pass, Saved& saved) const {
  const TensorView branch = saved.get(pass, branch_), stats = saved.put(pass, after_stats_);
  Scratch::Frame frame(pass.ops.scratch);
  after_.forward(pass, branch, pass.ops.scratch.allocate(branch.dtype, branch.shape), stats);
}

void NormedBranch::add(Pass& pass, Saved& saved, TensorView y) const {
  const TensorView x = saved.get(pass, input_), branch = saved.get(pass, branch_);
  const TensorView stats = pass.training ? saved.put(pass, after_stats_) : TensorView();
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView normed = pass.ops.scratch.allocate(branch.dtype, branch.shape);
  after_.forward(pass, branch, normed, stats);
  pass.show(options_.name + "." + options_.after_name, ".output", normed);
  add_branch(pass, dropout(pass), x, normed, y);
}

void NormedBranch::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const DType compute = options_.precision.compute;
  // Recomputation comes before the gradients' temporaries.
  const TensorView branch = saved.get(pass, branch_), after_stats = saved.get(pass, after_stats_);
  TensorView x, before_stats;
  if (before_) x = saved.get(pass, input_), before_stats = saved.get(pass, before_stats_);
  const DropoutRows mask = dropout(pass);
  TensorView dnormed = dy;  // without dropout and change of type
  if (mask.dropout.p != 0 || dy.dtype != compute) {
    dnormed = pass.ops.scratch.allocate(compute, dy.shape);
    dropout_backward(pass, mask, dy, dnormed);
  }
  pass.show_gradient(options_.name + "." + options_.after_name, ".output", dnormed);
  const TensorView dbranch = saved.put_stash(pass, which, layer_->output_gradient());
  after_.backward(pass, {.x = branch,
                         .stats = after_stats,
                         .dy = dnormed,
                         .dresidual = {},
                         .dx = dbranch,
                         .dropout = {},
                         .dbranch = {}});
  const TensorView dread = pass.ops.scratch.allocate(compute, dy.shape);
  layer_->backward(pass, saved, which, dbranch, dread);
  if (!before_) {
    ops::run(pass.ops, ops::ResidualAdd{.x = dy, .branch = dread, .dropout = {}, .y = dx});
    return;
  }
  pass.show_gradient(options_.name + "." + options_.before_name, ".output", dread);
  before_->backward(
      pass,
      {.x = x, .stats = before_stats, .dy = dread, .dresidual = dy, .dx = dx, .dropout = {}, .dbranch = {}});
}

}  // namespace stoa::nn
