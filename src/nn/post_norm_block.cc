#include "nn/post_norm_block.h"

#include "nn/adapted_sublayer.h"
#include "nn/dropout.h"

namespace stoa::nn {

PostNormBlock::PostNormBlock(const PostNormBlockOptions& options)
    : options_(options),
      norm1_(options.name + ".norm1", options.norm, options.attention.hidden, options.attention.place,
             options.attention.place.splits_stream()),
      norm2_(options.name + ".norm2", options.norm, options.attention.hidden, options.attention.place,
             options.attention.place.splits_stream()),
      attention_(
          adapted(std::make_unique<SelfAttention>(options.attention), options.attention_adapter, &norm1_)),
      mlp_(adapted(std::make_unique<Mlp>(options.mlp), options.mlp_adapter, &norm2_)) {}

DropoutRows PostNormBlock::dropout(const Pass& pass, const char* branch) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout, options_.name + branch,
                    options_.attention.place);
}

void PostNormBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const Precision precision = options_.precision;
  const bool one_type = precision.compute == precision.residual;
  // This rank's rows of the residual stream; the branches see all tokens.
  const std::int64_t rows = options_.attention.place.stream_rows(tokens);
  const Shape stream{rows, options_.attention.hidden};
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer, MakeMember make,
                              bool weight_input = false) {
    return table.declare({.tensor = {options_.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  input_ = table.declare({.tensor = {options_.name + ".input", precision.residual, stream},
                          .producer = Producer::kInput,
                          .make = {},
                          .weight_input = one_type});
  input_compute_ = one_type ? input_
                            : activation("input in compute type", precision.compute, stream, Producer::kCast,
                                         &PostNormBlock::make_input_compute, true);
  attention_->set_stream(input_);
  attention_->declare(params, table, tokens, precision, input_compute_);
  norm1_.declare(params);
  branch1_ =
      activation("branch1", precision.compute, stream, Producer::kBranch, &PostNormBlock::make_branch1);
  sum1_ = activation("sum1", precision.residual, stream, Producer::kSum, &PostNormBlock::make_middle);
  stats1_ =
      activation("statistics1", precision.vectors(), {rows, 2}, Producer::kNorm, &PostNormBlock::make_middle);
  middle_ = activation("middle", precision.residual, stream, Producer::kNorm, &PostNormBlock::make_middle,
                       one_type);
  middle_compute_ = one_type ? middle_
                             : activation("middle in compute type", precision.compute, stream,
                                          Producer::kCast, &PostNormBlock::make_middle_compute, true);
  mlp_->set_stream(middle_);
  mlp_->declare(params, table, tokens, precision, middle_compute_);
  norm2_.declare(params);
  branch2_ =
      activation("branch2", precision.compute, stream, Producer::kBranch, &PostNormBlock::make_branch2);
  sum2_ = activation("sum2", precision.residual, stream, Producer::kSum, &PostNormBlock::make_sum2);
  stats2_ =
      activation("statistics2", precision.vectors(), {rows, 2}, Producer::kNorm, &PostNormBlock::make_sum2);
}

void PostNormBlock::make_input_compute(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_);
  ops::run(pass.ops, ops::Cast{.x = x, .y = saved.put(pass, input_compute_)});
}

void PostNormBlock::make_branch1(Pass& pass, Saved& saved) const {
  saved.get(pass, attention_->last());
  const TensorView branch = saved.put(pass, branch1_);
  Scratch::Frame frame(pass.ops.scratch);
  attention_->forward(pass, saved, branch);
  pass.show(options_.name, ".attention.output", branch);
}

void PostNormBlock::make_middle(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), branch = saved.get(pass, branch1_);
  const TensorView sum = saved.put(pass, sum1_), middle = saved.put(pass, middle_);
  const TensorView stats = pass.training ? saved.put(pass, stats1_) : TensorView();
  norm1_.add_forward(pass, x, branch, dropout(pass, ".attention"), sum, middle, stats);
  pass.show(options_.name, ".middle", middle);
}

void PostNormBlock::make_middle_compute(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, middle_);
  ops::run(pass.ops, ops::Cast{.x = x, .y = saved.put(pass, middle_compute_)});
}

void PostNormBlock::make_branch2(Pass& pass, Saved& saved) const {
  saved.get(pass, mlp_->last());
  const TensorView branch = saved.put(pass, branch2_);
  Scratch::Frame frame(pass.ops.scratch);
  mlp_->forward(pass, saved, branch);
  pass.show(options_.name, ".mlp.output", branch);
}

void PostNormBlock::make_output(Pass& pass, Saved& saved, TensorView out) const {
  const TensorView middle = saved.get(pass, middle_), branch = saved.get(pass, branch2_);
  const TensorView sum = saved.put(pass, sum2_);
  const TensorView stats = pass.training ? saved.put(pass, stats2_) : TensorView();
  Scratch::Frame frame(pass.ops.scratch);
  norm2_.add_forward(pass, middle, branch, dropout(pass, ".mlp"), sum,
                     out ? out : pass.ops.scratch.allocate(sum.dtype, sum.shape), stats);
}

// For a backward pass: the output itself is the next block's.
void PostNormBlock::make_sum2(Pass& pass, Saved& saved) const { make_output(pass, saved, {}); }

void PostNormBlock::forward(Pass& pass, Saved& saved, TensorView out) {
  make_output(pass, saved, out);
  pass.show(options_.name, ".output", out);
}

TensorView PostNormBlock::branch_gradient(Pass& pass, Saved& saved, Which which, const Sublayer& sublayer,
                                          const char* branch, TensorView dsum) const {
  const DropoutRows mask = dropout(pass, branch);
  // Without dropout and change of type, the gradient of a branch is that of the sum itself.
  if (which == Which::kBoth && mask.dropout.p == 0 &&
      options_.precision.compute == options_.precision.residual)
    return dsum;
  const TensorView dbranch = saved.put_stash(pass, which, sublayer.output_gradient());
  dropout_backward(pass, mask, dsum, dbranch);
  return dbranch;
}

void PostNormBlock::backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) {
  if (which == Which::kWeight) {
    mlp_->backward_weight(pass, saved);
    attention_->backward_weight(pass, saved);
    return;
  }
  Scratch& scratch = pass.ops.scratch;
  // Recomputation comes before the gradients' temporaries.
  const TensorView sum1 = saved.get(pass, sum1_), stats1 = saved.get(pass, stats1_),
                   sum2 = saved.get(pass, sum2_), stats2 = saved.get(pass, stats2_);
  const TensorView dmiddle = scratch.allocate(dout.dtype, dout.shape),
                   dread = scratch.allocate(options_.precision.compute, dout.shape);
  const auto through_norm = [&](const Norm& norm, TensorView sum, TensorView stats, TensorView dy,
                                TensorView dx) {
    norm.backward(
        pass, {.x = sum, .stats = stats, .dy = dy, .dresidual = {}, .dx = dx, .dropout = {}, .dbranch = {}});
  };
  pass.show_gradient(options_.name, ".output", dout);
  through_norm(norm2_, sum2, stats2, dout, dmiddle);
  const auto through_branch = [&](const Sublayer& sublayer, const char* branch, TensorView dsum) {
    const TensorView dbranch = branch_gradient(pass, saved, which, sublayer, branch, dsum),
                     dstream = sublayer.stream_gradient(pass, saved, dbranch);
    sublayer.backward(pass, saved, which, dbranch, dread);
    ops::run(pass.ops, ops::ResidualAdd{.x = dsum, .branch = dread, .dropout = {}, .y = dsum});
    if (dstream) ops::run(pass.ops, ops::AddTo{.x = dstream, .y = dsum});
  };
  through_branch(*mlp_, ".mlp", dmiddle);
  pass.show_gradient(options_.name, ".middle", dmiddle);
  through_norm(norm1_, sum1, stats1, dmiddle, din);
  through_branch(*attention_, ".attention", din);
}

}  // namespace stoa::nn
