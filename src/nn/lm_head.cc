#include "nn/lm_head.h"

#include <algorithm>

#include "nn/embedding.h"
#include "ops/loss.h"

namespace stoa::nn {

LmHead::LmHead(LmHeadOptions options)
    : options_(options), norm_("final_norm", options.norm, options.hidden) {}

void LmHead::declare(ParamList& params, ParamId tied) {
  const auto& o = options_;
  norm_.declare(params);
  weight_ = tied ? params.tie(tied)
                 : params.add(vocabulary_matrix("head.weight", o.vocabulary, o.padded_vocabulary, o.hidden,
                                                o.deviation));
}

void LmHead::declare_tied_copy(ParamList& params) {
  const auto& o = options_;
  norm_.declare(params);
  ParamSpec spec =
      vocabulary_matrix("embedding.tokens.weight", o.vocabulary, o.padded_vocabulary, o.hidden, o.deviation);
  spec.grad_partial_over.push_back(parallel::Axis::kPipeline);
  weight_ = params.add(std::move(spec));
}

std::int64_t LmHead::largest_piece(DType type) const {
  const std::int64_t row = options_.padded_vocabulary * static_cast<std::int64_t>(size_of(type));
  return std::max<std::int64_t>(64, kLogitsBytes / row);
}

std::int64_t LmHead::piece(std::int64_t tokens, DType type) const {
  const std::int64_t most = largest_piece(type);
  const std::int64_t pieces = std::max<std::int64_t>(1, (tokens + most - 1) / most);
  return (tokens + pieces - 1) / pieces;
}

void LmHead::train(Pass& pass, TensorView x) const {
  const auto& o = options_;
  const DType compute = o.precision.compute, vectors = o.precision.vectors();
  const std::int64_t tokens = x.rows(), step = piece(tokens, compute);
  const TensorView w = pass.params.get(weight_.value);
  const GradTarget target = pass.grads->target(weight_.grad);
  Scratch::Frame frame(pass.ops.scratch);
  Scratch& scratch = pass.ops.scratch;
  const TensorView normed = scratch.allocate(compute, x.shape),
                   stats = scratch.allocate(vectors, {tokens, 2});
  const TensorView losses = scratch.allocate(vectors, {tokens});
  norm_.forward(pass, x, normed, stats);
  {
    Scratch::Frame inner(scratch);
    const TensorView block = scratch.allocate(compute, {step, o.padded_vocabulary});
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const TensorView h = normed.slice(begin, count), logits = block.slice(0, count);
      ops::run(pass.ops, ops::LinearForward{.x = h, .w = w, .bias = {}, .y = logits});
      ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                           .labels = pass.batch.labels.slice(begin, count),
                                           .loss_mask = pass.batch.loss_mask.slice(begin, count),
                                           .vocabulary = o.vocabulary,
                                           .gradient = true,
                                           .state = pass.state,
                                           .losses = losses.slice(begin, count)});
      ops::run(pass.ops, ops::LinearBackwardWeight{.x = h,
                                                   .dy = logits,
                                                   .dw = target.tensor,
                                                   .dbias = {},
                                                   .accumulate = target.accumulate || begin > 0});
      // The normed rows of this piece have been read for the last time: their gradient takes their place.
      ops::run(pass.ops, ops::LinearBackwardInput{.dy = logits, .w = w, .dx = h});
    }
  }
  pass.grads->notify(weight_.grad);
  ops::run(pass.ops,
           ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
  norm_.backward(
      pass, {.x = x, .stats = stats, .dy = normed, .dresidual = {}, .dx = x, .dropout = {}, .dbranch = {}});
}

void LmHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  const auto& o = options_;
  const DType type = o.precision.vectors();  // logits in full precision: nothing is saved by less
  // Not piece(): fewer tokens may mean larger pieces there, but memory is measured for the most tokens of a
  // pass.
  const std::int64_t tokens = x.rows(), step = std::min(tokens, largest_piece(type));
  const TensorView w = pass.params.get(weight_.value);
  {
    Scratch::Frame frame(pass.ops.scratch);
    Scratch& scratch = pass.ops.scratch;
    const TensorView normed = scratch.allocate(o.precision.compute, {step, o.hidden});
    const TensorView block = scratch.allocate(type, {step, o.padded_vocabulary});
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const TensorView h = normed.slice(0, count), logits = block.slice(0, count);
      norm_.forward(pass, x.slice(begin, count), h, {});
      ops::run(pass.ops, ops::LinearForward{.x = h, .w = w, .bias = {}, .y = logits});
      ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                           .labels = pass.batch.labels.slice(begin, count),
                                           .loss_mask = pass.batch.loss_mask.slice(begin, count),
                                           .vocabulary = o.vocabulary,
                                           .gradient = false,
                                           .state = {},
                                           .losses = losses.slice(begin, count)});
    }
  }
  if (pass.state)
    ops::run(pass.ops,
             ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
}

void LmHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  const TensorView normed = pass.ops.scratch.allocate(options_.precision.compute, {count, options_.hidden});
  for (std::size_t i = 0; i < rows.size();) {  // runs of neighbouring rows at once
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const std::int64_t length = static_cast<std::int64_t>(end - i);
    norm_.forward(pass, x.slice(rows[i], length), normed.slice(static_cast<std::int64_t>(i), length), {});
    i = end;
  }
  ops::run(pass.ops,
           ops::LinearForward{.x = normed, .w = pass.params.get(weight_.value), .bias = {}, .y = logits});
}

}  // namespace stoa::nn
