#include "nn/transformer_block.h"

#include "nn/adapted_sublayer.h"
#include "nn/branch_norm_block.h"
#include "nn/delta_attention.h"
#include "nn/dropout.h"
#include "nn/latent_attention.h"
#include "nn/moe.h"
#include "nn/parallel_block.h"
#include "nn/scaled_sublayer.h"
#include "ops/elementwise.h"

namespace stoa::nn {

std::unique_ptr<Sublayer> make_attention(const TransformerBlockOptions& o) {
  std::unique_ptr<Sublayer> layer;
  if (o.attention.delta)
    layer = std::make_unique<DeltaAttention>(o.attention);
  else if (o.attention.latent)
    layer = std::make_unique<LatentAttention>(o.attention);
  else
    layer = std::make_unique<SelfAttention>(o.attention);
  return adapted(scaled(std::move(layer), o.residual_multiplier), o.attention_adapter);
}

std::unique_ptr<Sublayer> make_mlp(const TransformerBlockOptions& o) {
  std::unique_ptr<Sublayer> layer;
  if (o.moe)
    layer = std::make_unique<Moe>(*o.moe);
  else
    layer = std::make_unique<Mlp>(o.mlp);
  return adapted(scaled(std::move(layer), o.residual_multiplier), o.mlp_adapter);
}

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options)
    : options_(options),
      norm2_(options.name + ".norm2", options.norm, options.attention.hidden, options.attention.place,
             options.attention.place.splits_stream()),
      attention_(make_attention(options)),
      mlp_(make_mlp(options)) {
  if (options.attention_norm)
    norm1_.emplace(options.name + ".norm1", options.norm, options.attention.hidden, options.attention.place,
                   options.attention.place.splits_stream());
}

DropoutRows TransformerBlock::dropout(const Pass& pass, const char* branch) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout, options_.name + branch,
                    options_.attention.place);
}

void TransformerBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const Precision precision = options_.precision;
  // This rank's rows of the residual stream; the branches see all tokens.
  const std::int64_t rows = options_.attention.place.stream_rows(tokens);
  const Shape stream{rows, options_.attention.hidden};
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer,
                              void (TransformerBlock::*make)(Pass&, Saved&) const,
                              bool weight_input = false) {
    return table.declare({.tensor = {options_.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  input_ = table.declare({.tensor = {options_.name + ".input", precision.residual, stream},
                          .producer = Producer::kInput,
                          .make = {}});
  if (norm1_) norm1_->declare(params);
  normed1_ = activation("normed1", precision.compute, stream, norm1_ ? Producer::kNorm : Producer::kCast,
                        &TransformerBlock::make_norm1, true);
  if (norm1_)
    stats1_ = activation("statistics1", precision.vectors(), {rows, 2}, Producer::kNorm,
                         &TransformerBlock::make_norm1);
  attention_->declare(params, table, tokens, precision, normed1_);
  norm2_.declare(params);
  branch_ =
      activation("branch", precision.compute, stream, Producer::kBranch, &TransformerBlock::make_branch);
  middle_ = activation("middle", precision.residual, stream, Producer::kSum, &TransformerBlock::make_middle);
  normed2_ =
      activation("normed2", precision.compute, stream, Producer::kNorm, &TransformerBlock::make_norm2, true);
  stats2_ = activation("statistics2", precision.vectors(), {rows, 2}, Producer::kNorm,
                       &TransformerBlock::make_norm2);
  mlp_->set_stream(middle_);
  mlp_->declare(params, table, tokens, precision, normed2_);
}

void TransformerBlock::make_norm1(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), y = saved.put(pass, normed1_);
  if (!norm1_) {
    ops::run(pass.ops, ops::Cast{.x = x, .y = y});
    return;
  }
  norm1_->forward(pass, x, y, pass.training ? saved.put(pass, stats1_) : TensorView());
  pass.show(options_.name, ".norm1.output", y);
}

void TransformerBlock::make_branch(Pass& pass, Saved& saved) const {
  saved.get(pass, attention_->last());
  const TensorView branch = saved.put(pass, branch_);
  Scratch::Frame frame(pass.ops.scratch);
  attention_->forward(pass, saved, branch);
  pass.show(options_.name, ".attention.output", branch);
}

// The sum after attention and its norm are made by one operation.
void TransformerBlock::make_middle(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), branch = saved.get(pass, branch_);
  const TensorView middle = saved.put(pass, middle_), y = saved.put(pass, normed2_);
  const TensorView stats = pass.training ? saved.put(pass, stats2_) : TensorView();
  norm2_.add_forward(pass, x, branch, dropout(pass, ".attention"), middle, y, stats);
  pass.show(options_.name, ".middle", middle);
  pass.show(options_.name, ".norm2.output", y);
}

void TransformerBlock::make_norm2(Pass& pass, Saved& saved) const {
  const TensorView middle = saved.get(pass, middle_);
  if (saved.made(normed2_)) return;  // together with the sum
  const TensorView y = saved.put(pass, normed2_);
  norm2_.forward(pass, middle, y, pass.training ? saved.put(pass, stats2_) : TensorView());
}

void TransformerBlock::forward(Pass& pass, Saved& saved, TensorView out) {
  const TensorView middle = saved.get(pass, middle_);
  saved.get(pass, mlp_->last());
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView branch = pass.ops.scratch.allocate(options_.precision.compute, out.shape);
  mlp_->forward(pass, saved, branch);
  add_branch(pass, dropout(pass, ".mlp"), middle, branch, out);
  pass.show(options_.name, ".mlp.output", branch);
  pass.show(options_.name, ".output", out);
}

void TransformerBlock::backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) {
  if (which == Which::kWeight) {
    mlp_->backward_weight(pass, saved);
    attention_->backward_weight(pass, saved);
    return;
  }
  const DType compute = options_.precision.compute;
  // Without dropout and change of type, the gradient of a branch is that of the stream itself.
  const bool same =
      which == Which::kBoth && dropout(pass, "").dropout.p == 0 && compute == options_.precision.residual;
  const TensorView input = saved.get(pass, input_);
  // Recomputation comes before the gradients' temporaries.
  const TensorView middle = saved.get(pass, middle_);
  const TensorView stats1 = norm1_ ? saved.get(pass, stats1_) : TensorView(),
                   stats2 = saved.get(pass, stats2_);

  TensorView dbranch = dout;
  if (!same) {
    dbranch = saved.put_stash(pass, which, mlp_->output_gradient());
    dropout_backward(pass, dropout(pass, ".mlp"), dout, dbranch);
  }
  const TensorView dnormed = pass.ops.scratch.allocate(compute, dout.shape);
  pass.show_gradient(options_.name, ".output", dout);
  TensorView dresidual = mlp_->stream_gradient(pass, saved, dbranch);
  mlp_->backward(pass, saved, which, dbranch, dnormed);
  if (dresidual)
    ops::run(pass.ops, ops::AddTo{.x = dout, .y = dresidual});
  else
    dresidual = dout;
  pass.show_gradient(options_.name, ".norm2.output", dnormed);

  const TensorView dattention =
      same ? TensorView() : saved.put_stash(pass, which, attention_->output_gradient());
  norm2_.backward(pass, {.x = middle,
                         .stats = stats2,
                         .dy = dnormed,
                         .dresidual = dresidual,
                         .dx = din,
                         .dropout = dropout(pass, ".attention"),
                         .dbranch = dattention});
  pass.show_gradient(options_.name, ".middle", din);
  attention_->backward(pass, saved, which, same ? din : dattention, dnormed);
  if (!norm1_) {
    ops::run(pass.ops, ops::ResidualAdd{.x = din, .branch = dnormed, .dropout = {}, .y = din});
    return;
  }
  pass.show_gradient(options_.name, ".norm1.output", dnormed);
  norm1_->backward(pass, {.x = input,
                          .stats = stats1,
                          .dy = dnormed,
                          .dresidual = din,
                          .dx = din,
                          .dropout = {},
                          .dbranch = {}});
}

std::unique_ptr<Block> make_block(const TransformerBlockOptions& options) {
  const bool after = options.norm_placement != NormPlacement::kBefore;
  require<InternalError>(!options.parallel || !after, "'{}': parallel branches are normalised before alone",
                         options.name);
  if (options.parallel) return std::make_unique<ParallelBlock>(options);
  if (after) return std::make_unique<BranchNormBlock>(options);
  return std::make_unique<TransformerBlock>(options);
}

}  // namespace stoa::nn
