#include "nn/lm_head.h"

#include <algorithm>

#include "nn/tensor_rows.h"
#include "ops/loss.h"

namespace stoa::nn {

LmHead::LmHead(LmHeadOptions options)
    : options_(options),
      part_(vocabulary_part(options.vocabulary, options.padded_vocabulary, options.place)),
      norm_("final_norm", options.norm, options.hidden, options.place, options.place.splits_stream()) {}

ParamSpec LmHead::matrix(std::string name) const {
  const auto& o = options_;
  return vocabulary_matrix(std::move(name), o.vocabulary, o.padded_vocabulary, o.hidden, o.deviation,
                           o.place);
}

void LmHead::declare(ParamList& params, ParamId tied) {
  norm_.declare(params);
  weight_ = tied ? params.tie(tied) : params.add(matrix("head.weight"));
}

void LmHead::declare_tied_copy(ParamList& params) {
  norm_.declare(params);
  ParamSpec spec = matrix("embedding.tokens.weight");
  spec.grad_partial_over.push_back(parallel::Axis::kPipeline);
  weight_ = params.add(std::move(spec));
}

std::int64_t LmHead::largest_piece(DType type) const {
  const std::int64_t row = part_.rows * static_cast<std::int64_t>(size_of(type));
  return std::max<std::int64_t>(64, kLogitsBytes / row);
}

std::int64_t LmHead::piece(std::int64_t tokens, DType type) const {
  const std::int64_t most = largest_piece(type);
  const std::int64_t pieces = std::max<std::int64_t>(1, (tokens + most - 1) / most);
  return (tokens + pieces - 1) / pieces;
}

void LmHead::loss(Pass& pass, TensorView logits, std::int64_t begin, TensorView losses, bool train) const {
  const auto& o = options_;
  const std::int64_t count = logits.rows();
  const TensorView labels = pass.batch.labels.slice(begin, count),
                   mask = pass.batch.loss_mask.slice(begin, count), out = losses.slice(begin, count);
  const TensorView state = train ? pass.state : TensorView();
  const double smoothing = train ? o.smoothing : 0, z_weight = train ? o.z_weight : 0;
  if (!o.place.split()) {
    ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                         .labels = labels,
                                         .loss_mask = mask,
                                         .vocabulary = o.vocabulary,
                                         .gradient = train,
                                         .state = state,
                                         .losses = out,
                                         .smoothing = smoothing,
                                         .z_weight = z_weight});
    return;
  }
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView parts = pass.ops.scratch.allocate(out.dtype, {o.place.size, count, 4});
  const TensorView own = parts.slice(o.place.rank, 1).reshape({count, 4});
  ops::run(pass.ops, ops::CrossEntropyPart{.logits = logits,
                                           .labels = labels,
                                           .first_column = part_.ids.begin,
                                           .columns = part_.ids.count,
                                           .part = own});
  pass.parallel.along(parallel::Axis::kTensor).all_gather(own, parts, pass.ops.stream)->wait();
  ops::run(pass.ops, ops::CrossEntropyMerge{.logits = train ? logits : TensorView(),
                                            .labels = labels,
                                            .loss_mask = mask,
                                            .parts = parts,
                                            .first_column = part_.ids.begin,
                                            .columns = part_.ids.count,
                                            .vocabulary = o.vocabulary,
                                            .state = state,
                                            .losses = out,
                                            .smoothing = smoothing,
                                            .z_weight = z_weight});
}

void LmHead::train(Pass& pass, TensorView x) const {
  const auto& o = options_;
  const DType compute = o.precision.compute, vectors = o.precision.vectors();
  const TensorView w = pass.params.get(weight_.value);
  const GradTarget target = pass.grads->target(weight_.grad);
  Scratch::Frame frame(pass.ops.scratch);
  Scratch& scratch = pass.ops.scratch;
  const TensorView normed = scratch.allocate(compute, x.shape),
                   stats = scratch.allocate(vectors, {x.rows(), 2});
  norm_.forward(pass, x, normed, stats);
  pass.show("final_norm", ".output", normed);
  const TensorView all = gather_rows(pass, o.place, normed).wait();
  const std::int64_t tokens = all.rows(), step = piece(tokens, compute);
  const TensorView losses = scratch.allocate(vectors, {tokens});
  std::vector<InFlight> sums;
  {
    Scratch::Frame inner(scratch);
    const TensorView block = scratch.allocate(compute, {step, part_.rows});
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const TensorView h = all.slice(begin, count), logits = block.slice(0, count);
      ops::run(pass.ops, ops::LinearForward{.x = h, .w = w, .bias = {}, .y = logits});
      if (pass.probe) pass.probe->logits(logits, begin, o.vocabulary);
      loss(pass, logits, begin, losses, true);
      ops::run(pass.ops, ops::LinearBackwardWeight{.x = h,
                                                   .dy = logits,
                                                   .dw = target.tensor,
                                                   .dbias = {},
                                                   .accumulate = target.accumulate || begin > 0});
      // The normed rows of this piece have been read for the last time: their gradient takes their place.
      ops::run(pass.ops, ops::LinearBackwardInput{.dy = logits, .w = w, .dx = h});
      // Its sum over the ranks is under way while the next piece is computed.
      if (o.place.split() && !o.place.splits_stream()) sums.push_back(add_rows(pass, o.place, h, h));
    }
  }
  pass.grads->notify(weight_.grad);
  if (o.place.splits_stream()) sums.push_back(add_rows(pass, o.place, all, normed));
  pass.show("head", ".losses", losses);
  ops::run(pass.ops,
           ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
  for (auto& sum : sums) sum.wait();
  pass.show_gradient("final_norm", ".output", normed);
  norm_.backward(
      pass, {.x = x, .stats = stats, .dy = normed, .dresidual = {}, .dx = x, .dropout = {}, .dbranch = {}});
}

void LmHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  const auto& o = options_;
  const DType type = o.precision.vectors();  // logits in full precision: nothing is saved by less
  const TensorView w = pass.params.get(weight_.value);
  {
    Scratch::Frame frame(pass.ops.scratch);
    Scratch& scratch = pass.ops.scratch;
    TensorView all;  // normed rows of all tokens, where the stream is split
    if (o.place.splits_stream()) {
      const TensorView rows = scratch.allocate(o.precision.compute, x.shape);
      norm_.forward(pass, x, rows, {});
      all = gather_rows(pass, o.place, rows).wait();
    }
    // Not piece(): fewer tokens may mean larger pieces there, but memory is measured for the most tokens of a
    // pass.
    const std::int64_t tokens = losses.rows(), step = std::min(tokens, largest_piece(type));
    const TensorView normed = all ? TensorView() : scratch.allocate(o.precision.compute, {step, o.hidden});
    const TensorView block = scratch.allocate(type, {step, part_.rows});
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const TensorView h = all ? all.slice(begin, count) : normed.slice(0, count),
                       logits = block.slice(0, count);
      if (!all) norm_.forward(pass, x.slice(begin, count), h, {});
      ops::run(pass.ops, ops::LinearForward{.x = h, .w = w, .bias = {}, .y = logits});
      loss(pass, logits, begin, losses, false);
    }
  }
  if (pass.state)
    ops::run(pass.ops,
             ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
}

void LmHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const {
  require<ConfigError>(!options_.place.split(),
                       "text is drawn by one rank: tensor_model_parallel_size is {}, expected 1",
                       options_.place.size);
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
