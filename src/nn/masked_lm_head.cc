#include "nn/masked_lm_head.h"

#include <algorithm>

#include "nn/picked_tokens.h"
#include "ops/elementwise.h"
#include "ops/loss.h"

namespace stoa::nn {
namespace {

// The options for rows that every rank of a tensor-parallel group holds.
OutputLayerOptions on_whole_rows(OutputLayerOptions options) {
  options.place.sequence = false;
  return options;
}

}  // namespace

SentenceHead::SentenceHead(std::int64_t hidden, double deviation, Precision precision,
                           const parallel::TensorPlace& place)
    : precision_(precision),
      pooler_(whole_linear("head.pooler", hidden, hidden, deviation, place)),
      binary_(whole_linear("head.sentence", hidden, 2, deviation, place)) {}

void SentenceHead::declare(ParamList& params) {
  pooler_.declare(params);
  binary_.declare(params);
}

void SentenceHead::loss(Pass& pass, TensorView logits, bool train) const {
  const MaskedTargets& m = pass.batch.masked;
  const TensorView losses = pass.ops.scratch.allocate(precision_.vectors(), {logits.rows()});
  ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                       .labels = m.sentence_labels,
                                       .loss_mask = m.sentence_weights,
                                       .vocabulary = 2,
                                       .gradient = train,
                                       .state = train ? pass.state : TensorView(),
                                       .losses = losses});
  ops::run(pass.ops, ops::SumLosses{.losses = losses, .loss_mask = m.sentence_weights, .state = pass.state});
}

void SentenceHead::train(Pass& pass, TensorView x) const {
  Scratch::Frame frame(pass.ops.scratch);
  Scratch& scratch = pass.ops.scratch;
  const TensorView raw = scratch.allocate(x.dtype, x.shape), pooled = scratch.allocate(x.dtype, x.shape),
                   logits = scratch.allocate(x.dtype, {x.rows(), 2});
  constexpr auto kTanh = ops::ActivationKind::kTanh;
  pooler_.forward(pass, x, raw);
  ops::run(pass.ops, ops::ActivationForward{.kind = kTanh, .x = raw, .y = pooled});
  binary_.forward(pass, pooled, logits);
  loss(pass, logits, true);
  const TensorView dpooled = scratch.allocate(x.dtype, x.shape), dx = scratch.allocate(x.dtype, x.shape);
  binary_.backward(pass, Which::kBoth, pooled, logits, dpooled);
  ops::run(pass.ops, ops::ActivationBackward{.kind = kTanh, .x = raw, .dy = dpooled, .dx = raw});
  pooler_.backward(pass, Which::kBoth, x, raw, dx);
  ops::run(pass.ops, ops::Cast{.x = dx, .y = x});
}

void SentenceHead::logits(Pass& pass, TensorView x, TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView pooled = pass.ops.scratch.allocate(x.dtype, x.shape);
  pooler_.forward(pass, x, pooled);
  ops::run(pass.ops, ops::ActivationForward{.kind = ops::ActivationKind::kTanh, .x = pooled, .y = pooled});
  binary_.forward(pass, pooled, logits);
}

void SentenceHead::evaluate(Pass& pass, TensorView x) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView out = pass.ops.scratch.allocate(precision_.vectors(), {x.rows(), 2});
  logits(pass, x, out);
  loss(pass, out, false);
}

MaskedLmHead::MaskedLmHead(const MaskedLmHeadOptions& options)
    : options_(options),
      dense_(whole_linear("head.dense", options.output.hidden, options.output.hidden,
                          options.output.deviation, options.output.place, options.dense_bias)),
      norm_("head.norm", options.norm, options.output.hidden, options.output.place, false),
      output_(on_whole_rows(options.output)) {
  if (options.binary)
    sentence_.emplace(options.output.hidden, options.output.deviation, options.output.precision,
                      options.output.place);
}

void MaskedLmHead::declare(ParamList& params, ParamId tied) {
  dense_.declare(params);
  norm_.declare(params);
  output_.declare(params, tied);
  if (sentence_) sentence_->declare(params);
}

void MaskedLmHead::declare_tied_copy(ParamList& params) {
  dense_.declare(params);
  norm_.declare(params);
  output_.declare_tied_copy(params);
  if (sentence_) sentence_->declare(params);
}

OutputLayer::Targets MaskedLmHead::targets(const Pass& pass, TensorView losses) const {
  return {pass.batch.masked.labels, pass.batch.masked.mask, losses};
}

TensorView MaskedLmHead::pick(Pass& pass, TensorView x) const {
  return pick_rows(pass, options_.output.place, x, pass.batch.masked.rows, options_.output.precision.compute);
}

MaskedLmHead::Transformed MaskedLmHead::transform(Pass& pass, TensorView x, bool training) const {
  Scratch& scratch = pass.ops.scratch;
  Transformed out;
  out.raw = scratch.allocate(x.dtype, x.shape);
  out.activated = training ? scratch.allocate(x.dtype, x.shape) : out.raw;
  out.normed = scratch.allocate(x.dtype, x.shape);
  if (training) out.stats = scratch.allocate(options_.output.precision.vectors(), {x.rows(), 2});
  dense_.forward(pass, x, out.raw);
  ops::run(pass.ops, ops::ActivationForward{.kind = options_.activation, .x = out.raw, .y = out.activated});
  norm_.forward(pass, out.activated, out.normed, out.stats);
  return out;
}

void MaskedLmHead::train(Pass& pass, TensorView x) const {
  const MaskedTargets& m = pass.batch.masked;
  const std::int64_t masked = m.labels.rows(), rows = m.rows.rows(), hidden = options_.output.hidden;
  Scratch::Frame frame(pass.ops.scratch);
  Scratch& scratch = pass.ops.scratch;
  // Gradients of the picked rows, and a row of zeros shared by all others.
  const TensorView gradients = scratch.allocate(x.dtype, {rows + 1, hidden});
  ops::run(pass.ops, ops::FillZero{.y = gradients.slice(masked, rows + 1 - masked)});
  const TensorView losses = scratch.allocate(options_.output.precision.vectors(), {masked});
  {
    Scratch::Frame inner(scratch);
    const TensorView picked = pick(pass, x), tokens = picked.slice(0, masked);
    const Transformed t = transform(pass, tokens, true);
    pass.show("head.norm", ".output", t.normed);
    output_.train(pass, t.normed, targets(pass, losses), false);
    const TensorView dactivated = scratch.allocate(tokens.dtype, tokens.shape);
    norm_.backward(pass, {.x = t.activated,
                          .stats = t.stats,
                          .dy = t.normed,
                          .dresidual = {},
                          .dx = dactivated,
                          .dropout = {},
                          .dbranch = {}});
    ops::run(pass.ops,
             ops::ActivationBackward{.kind = options_.activation, .x = t.raw, .dy = dactivated, .dx = t.raw});
    dense_.backward(pass, Which::kBoth, tokens, t.raw, dactivated);
    ops::run(pass.ops, ops::Cast{.x = dactivated, .y = gradients.slice(0, masked)});
    if (sentence_) {
      const TensorView first = picked.slice(masked, rows - masked);
      sentence_->train(pass, first);
      ops::run(pass.ops, ops::Cast{.x = first, .y = gradients.slice(masked, rows - masked)});
    }
  }
  pass.show("head", ".losses", losses);
  ops::run(pass.ops, ops::SumLosses{.losses = losses, .loss_mask = m.mask, .state = pass.state});
  scatter_rows(pass, options_.output.place, gradients, x);
}

void MaskedLmHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  const MaskedTargets& m = pass.batch.masked;
  const std::int64_t masked = m.labels.rows();
  const TensorView out = losses.slice(0, masked);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView picked = pick(pass, x);
    const TensorView normed = transform(pass, picked.slice(0, masked), false).normed;
    // Logits in full precision: less would save nothing. Fewer tokens must not make pieces larger: memory is
    // measured for the largest pass.
    const DType type = options_.output.precision.vectors();
    const std::int64_t step = std::min(masked, output_.largest_piece(type));
    const TensorView block = pass.ops.scratch.allocate(type, {step, output_.columns()});
    for (std::int64_t begin = 0; begin < masked; begin += step) {
      const std::int64_t count = std::min(step, masked - begin);
      const TensorView logits = block.slice(0, count);
      output_.project(pass, normed.slice(begin, count), logits);
      output_.loss(pass, logits, targets(pass, out), begin, false);
    }
    if (sentence_ && pass.state) sentence_->evaluate(pass, picked.slice(masked, picked.rows() - masked));
  }
  if (pass.state) ops::run(pass.ops, ops::SumLosses{.losses = out, .loss_mask = m.mask, .state = pass.state});
}

void MaskedLmHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                          TensorView logits) const {
  require<ConfigError>(!options_.output.place.split(),
                       "tokens are predicted by one rank: tensor_model_parallel_size is {}, expected 1",
                       options_.output.place.size);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView picked =
      pick_rows(pass, options_.output.place, x, rows, options_.output.precision.compute);
  output_.project(pass, transform(pass, picked, false).normed, logits);
}

void MaskedLmHead::sentence_logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                                   TensorView logits) const {
  require<InternalError>(sentence_.has_value(), "this head judges no sentences");
  Scratch::Frame frame(pass.ops.scratch);
  sentence_->logits(pass, pick_rows(pass, options_.output.place, x, rows, options_.output.precision.compute),
                    logits);
}

}  // namespace stoa::nn
