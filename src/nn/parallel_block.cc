#include "nn/parallel_block.h"

#include "nn/dropout.h"
#include "ops/elementwise.h"

namespace stoa::nn {
namespace {

Norm norm_of(const TransformerBlockOptions& o, const char* label) {
  return Norm(o.name + label, o.norm, o.attention.hidden, o.attention.place,
              o.attention.place.splits_stream());
}

}  // namespace

ParallelBlock::ParallelBlock(const TransformerBlockOptions& o)
    : options_(o),
      attention_{".attention", ".norm1", norm_of(o, ".norm1"), make_attention(o)},
      mlp_{".mlp", o.one_norm ? ".norm1" : ".norm2", {}, make_mlp(o)} {
  if (!o.one_norm) mlp_.norm.emplace(norm_of(o, ".norm2"));
}

DropoutRows ParallelBlock::dropout(const Pass& pass, const Branch& branch) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout, options_.name + branch.label,
                    options_.attention.place);
}

void ParallelBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const Shape stream{options_.attention.place.stream_rows(tokens), options_.attention.hidden};
  input_ = table.declare({.tensor = {options_.name + ".input", options_.precision.residual, stream},
                          .producer = Producer::kInput,
                          .make = {}});
  declare(attention_, params, table, tokens);
  declare(mlp_, params, table, tokens);
}

void ParallelBlock::declare(Branch& branch, ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const std::int64_t rows = options_.attention.place.stream_rows(tokens);
  const auto activation = [&](const char* name, DType type, std::int64_t columns, bool weight_input) {
    return table.declare(
        {.tensor = {options_.name + branch.norm_label + name, type, {rows, columns}},
         .producer = Producer::kNorm,
         .make = [this, &branch](Pass& pass, Saved& saved) { make_normed(branch, pass, saved); },
         .weight_input = weight_input});
  };
  if (branch.norm) {
    branch.norm->declare(params);
    branch.normed = activation(".output", options_.precision.compute, options_.attention.hidden, true);
    branch.stats = activation(".statistics", options_.precision.vectors(), 2, false);
  } else {
    branch.normed = attention_.normed, branch.stats = attention_.stats;
  }
  branch.layer->set_stream(input_);
  branch.layer->declare(params, table, tokens, options_.precision, branch.normed);
}

void ParallelBlock::make_normed(const Branch& branch, Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), y = saved.put(pass, branch.normed);
  branch.norm->forward(pass, x, y, pass.training ? saved.put(pass, branch.stats) : TensorView());
  pass.show(options_.name + branch.norm_label, ".output", y);
}

void ParallelBlock::add(const Branch& branch, Pass& pass, Saved& saved, TensorView x, TensorView to) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView y = pass.ops.scratch.allocate(options_.precision.compute, to.shape);
  branch.layer->forward(pass, saved, y);
  add_branch(pass, dropout(pass, branch), x, y, to);
  pass.show(options_.name + branch.label, ".output", y);
}

void ParallelBlock::forward(Pass& pass, Saved& saved, TensorView out) {
  const TensorView x = saved.get(pass, input_);
  // `out` may be the same memory as x: it is written only after both branches have read x.
  saved.get(pass, attention_.layer->last());
  saved.get(pass, mlp_.layer->last());
  add(attention_, pass, saved, x, out);
  add(mlp_, pass, saved, out, out);
  pass.show(options_.name, ".output", out);
}

TensorView ParallelBlock::layer_backward(const Branch& branch, Pass& pass, Saved& saved, Which which,
                                         TensorView dout, TensorView& dstream) const {
  const DropoutRows mask = dropout(pass, branch);
  const DType compute = options_.precision.compute;
  TensorView dbranch = dout;  // without dropout, a cast or a stash, which need a copy
  if (which != Which::kBoth || mask.dropout.p != 0 || dout.dtype != compute) {
    dbranch = saved.put_stash(pass, which, branch.layer->output_gradient());
    dropout_backward(pass, mask, dout, dbranch);
  }
  const TensorView dnormed = pass.ops.scratch.allocate(compute, dout.shape);
  dstream = branch.layer->stream_gradient(pass, saved, dbranch);
  branch.layer->backward(pass, saved, which, dbranch, dnormed);
  pass.show_gradient(options_.name + branch.norm_label, ".output", dnormed);
  return dnormed;
}

void ParallelBlock::norm_backward(const Branch& branch, Pass& pass, Saved& saved, TensorView dnormed,
                                  TensorView dresidual, TensorView din) const {
  branch.norm->backward(pass, {.x = saved.get(pass, input_),
                               .stats = saved.get(pass, branch.stats),
                               .dy = dnormed,
                               .dresidual = dresidual,
                               .dx = din,
                               .dropout = {},
                               .dbranch = {}});
}

void ParallelBlock::backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) {
  if (which == Which::kWeight) {
    mlp_.layer->backward_weight(pass, saved);
    attention_.layer->backward_weight(pass, saved);
    return;
  }
  // Recompute activations before the gradients' temporaries are allocated.
  saved.get(pass, attention_.stats);
  saved.get(pass, mlp_.stats);
  pass.show_gradient(options_.name, ".output", dout);
  // `din` may be the same memory as dout: it is written only after both branches have read dout.
  TensorView of_mlp, of_attention, dresidual = dout;
  const TensorView dnormed2 = layer_backward(mlp_, pass, saved, which, dout, of_mlp);
  const TensorView dnormed1 = layer_backward(attention_, pass, saved, which, dout, of_attention);
  for (const TensorView& dstream : {of_mlp, of_attention}) {
    if (!dstream) continue;
    ops::run(pass.ops, ops::AddTo{.x = dresidual, .y = dstream});
    dresidual = dstream;
  }
  if (options_.one_norm) {
    ops::run(pass.ops, ops::AddTo{.x = dnormed2, .y = dnormed1});
    norm_backward(attention_, pass, saved, dnormed1, dresidual, din);
    return;
  }
  norm_backward(mlp_, pass, saved, dnormed2, dresidual, din);
  norm_backward(attention_, pass, saved, dnormed1, din, din);
}

}  // namespace stoa::nn
