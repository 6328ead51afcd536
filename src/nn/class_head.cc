#include "nn/class_head.h"

#include "nn/dropout.h"
#include "nn/picked_tokens.h"
#include "nn/seeded.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/scale_matrix.h"

namespace stoa::nn {

ClassHead::ClassHead(const ClassHeadOptions& options)
    : options_(options),
      classes_(whole_linear(options.name, options.hidden, options.classes, options.deviation, options.place,
                            options.bias)) {
  if (options.pooled)
    pooler_.emplace(
        whole_linear("head.pooler", options.hidden, options.hidden, options.deviation, options.place));
}

void ClassHead::declare(ParamList& params, ParamId) {
  if (pooler_) pooler_->declare(params);
  classes_.declare(params);
}

void ClassHead::declare_tied_copy(ParamList& params) { declare(params, {}); }

void ClassHead::squared_errors(Pass& pass, TensorView scores, TensorView losses, bool train) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const DType wide = options_.precision.vectors();
  const TensorView errors = scratch.allocate(wide, scores.shape),
                   targets = scratch.allocate(wide, scores.shape);
  TensorView numbers = pass.batch.masked.labels.reshape(scores.shape);
  numbers.dtype = DType::kF32;
  ops::run(pass.ops, ops::Cast{.x = numbers, .y = targets});
  ops::run(pass.ops, ops::Cast{.x = scores, .y = errors});
  ops::run(pass.ops, ops::Combine{.a = -1, .b = 1, .x = targets, .y = errors});
  ops::run(pass.ops, ops::RowDots{.x = errors, .y = errors, .out = losses});
  if (!train) return;
  seeded_weights(pass, pass.batch.masked.mask, targets);
  ops::run(
      pass.ops,
      ops::ScaleMatrix{
          .x = errors, .rows = targets.reshape({targets.rows()}), .columns = {}, .bias = {}, .y = errors});
  ops::run(pass.ops, ops::Combine{.a = 2, .b = 0, .x = errors, .y = errors});
  ops::run(pass.ops, ops::Cast{.x = errors, .y = scores});
}

void ClassHead::loss(Pass& pass, TensorView logits, TensorView losses, bool train) const {
  const MaskedTargets& m = pass.batch.masked;
  if (options_.regression)
    squared_errors(pass, logits, losses, train);
  else
    ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                         .labels = m.labels,
                                         .loss_mask = m.mask,
                                         .vocabulary = options_.classes,
                                         .gradient = train,
                                         .state = train ? pass.state : TensorView(),
                                         .losses = losses,
                                         .smoothing = train ? options_.smoothing : 0,
                                         .z_weight = train ? options_.z_weight : 0});
  if (pass.state)
    ops::run(pass.ops, ops::SumLosses{.losses = losses, .loss_mask = m.mask, .state = pass.state});
}

void ClassHead::drop_pooled(Pass& pass, TensorView x, TensorView y) const {
  ops::Dropout mask;
  mask.p = dropout(pass);
  mask.key = philox_key(pass.seed, RandomPurpose::kHiddenDropout, options_.name);
  mask.first_token = pass.batch.first_sample;
  ops::run(pass.ops, ops::DropoutBackward{.dy = x, .dropout = mask, .dbranch = y});
}

void ClassHead::train(Pass& pass, TensorView x) const {
  const MaskedTargets& m = pass.batch.masked;
  const std::int64_t labelled = m.labels.rows(), rows = m.rows.rows(), hidden = options_.hidden;
  const DType compute = options_.precision.compute;
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const bool drops = dropout(pass) > 0;
  // Dropout masks follow the tokens' positions in the stream.
  DropoutRows mask;
  if (!pooler_)
    mask = dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout, options_.name, options_.place);
  const TensorView dropped = drops && !pooler_ ? scratch.allocate(x.dtype, x.shape) : x;
  if (dropped.data != x.data) dropout_backward(pass, mask, x, dropped);

  const TensorView gradients = scratch.allocate(x.dtype, {rows + 1, hidden});
  ops::run(pass.ops, ops::FillZero{.y = gradients.slice(labelled, rows + 1 - labelled)});
  {
    Scratch::Frame inner(scratch);
    const TensorView picked = pick_rows(pass, options_.place, dropped, m.rows.slice(0, labelled), compute);
    const TensorView logits = scratch.allocate(compute, {labelled, options_.classes}),
                     losses = scratch.allocate(options_.precision.vectors(), {labelled}),
                     dpicked = scratch.allocate(compute, picked.shape);
    if (pooler_) {
      const TensorView raw = scratch.allocate(compute, picked.shape),
                       pooled = scratch.allocate(compute, picked.shape),
                       read = drops ? scratch.allocate(compute, picked.shape) : pooled;
      pooler_->forward(pass, picked, raw);
      ops::run(pass.ops, ops::ActivationForward{.kind = options_.pooler, .x = raw, .y = pooled});
      if (drops) drop_pooled(pass, pooled, read);
      classes_.forward(pass, read, logits);
      loss(pass, logits, losses, true);
      classes_.backward(pass, Which::kBoth, read, logits, dpicked);
      if (drops) drop_pooled(pass, dpicked, read);
      ops::run(pass.ops, ops::ActivationBackward{
                             .kind = options_.pooler, .x = raw, .dy = drops ? read : dpicked, .dx = raw});
      pooler_->backward(pass, Which::kBoth, picked, raw, dpicked);
    } else {
      classes_.forward(pass, picked, logits);
      loss(pass, logits, losses, true);
      classes_.backward(pass, Which::kBoth, picked, logits, dpicked);
    }
    pass.show("head", ".losses", losses);
    ops::run(pass.ops, ops::Cast{.x = dpicked, .y = gradients.slice(0, labelled)});
  }
  scatter_rows(pass, options_.place, gradients, dropped);
  if (dropped.data != x.data) dropout_backward(pass, mask, dropped, x);
}

void ClassHead::project(Pass& pass, TensorView picked, TensorView logits) const {
  if (!pooler_) return classes_.forward(pass, picked, logits);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView pooled = pass.ops.scratch.allocate(picked.dtype, picked.shape);
  pooler_->forward(pass, picked, pooled);
  ops::run(pass.ops, ops::ActivationForward{.kind = options_.pooler, .x = pooled, .y = pooled});
  classes_.forward(pass, pooled, logits);
}

void ClassHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  const MaskedTargets& m = pass.batch.masked;
  const std::int64_t labelled = m.labels.rows();
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView picked =
      pick_rows(pass, options_.place, x, m.rows.slice(0, labelled), options_.precision.compute);
  const TensorView logits =
      pass.ops.scratch.allocate(options_.precision.vectors(), {labelled, options_.classes});
  project(pass, picked, logits);
  loss(pass, logits, losses.slice(0, labelled), false);
}

void ClassHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                       TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  project(pass, pick_rows(pass, options_.place, x, rows, options_.precision.compute), logits);
}

}  // namespace stoa::nn
