#include "nn/lm_head.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/muon.h"

namespace stoa::nn {

LmHead::LmHead(const LmHeadOptions& options)
    : options_(options.output),
      scale_(options.scale),
      norm_("final_norm", options.norm, options_.hidden, options_.place, options_.place.splits_stream()),
      output_(options_) {}

void LmHead::declare(ParamList& params, ParamId tied) {
  norm_.declare(params);
  output_.declare(params, tied);
}

void LmHead::declare_tied_copy(ParamList& params) {
  norm_.declare(params);
  output_.declare_tied_copy(params);
}

void LmHead::rescale(Pass& pass, TensorView rows) const {
  if (scale_ == 1) return;
  Scratch::Frame frame(pass.ops.scratch);
  const DType wide = options_.precision.vectors();
  const TensorView x = rows.dtype == wide ? rows : pass.ops.scratch.allocate(wide, rows.shape);
  if (x.data != rows.data) ops::run(pass.ops, ops::Cast{.x = rows, .y = x});
  ops::run(pass.ops, ops::Combine{.a = scale_, .b = 0, .x = x, .y = x});
  if (x.data != rows.data) ops::run(pass.ops, ops::Cast{.x = x, .y = rows});
}

void LmHead::normalise(Pass& pass, TensorView x, TensorView y, TensorView stats) const {
  norm_.forward(pass, x, y, stats);
  rescale(pass, y);
}

void LmHead::train(Pass& pass, TensorView x) const {
  const auto& o = options_;
  const DType compute = o.precision.compute, vectors = o.precision.vectors();
  Scratch::Frame frame(pass.ops.scratch);
  Scratch& scratch = pass.ops.scratch;
  const TensorView normed = scratch.allocate(compute, x.shape),
                   stats = scratch.allocate(vectors, {x.rows(), 2});
  normalise(pass, x, normed, stats);
  pass.show("final_norm", ".output", normed);
  const TensorView all = gather_rows(pass, o.place, normed).wait();
  const TensorView losses = scratch.allocate(vectors, {all.rows()});
  output_.train(pass, all, {pass.batch.labels, pass.batch.loss_mask, losses}, true);
  InFlight sum = o.place.splits_stream() ? add_rows(pass, o.place, all, normed) : InFlight(normed, nullptr);
  pass.show("head", ".losses", losses);
  ops::run(pass.ops,
           ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
  sum.wait();
  rescale(pass, normed);
  pass.show_gradient("final_norm", ".output", normed);
  norm_.backward(
      pass, {.x = x, .stats = stats, .dy = normed, .dresidual = {}, .dx = x, .dropout = {}, .dbranch = {}});
}

void LmHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  const auto& o = options_;
  const DType type = o.precision.vectors();  // logits in full precision: nothing is saved by less
  {
    Scratch::Frame frame(pass.ops.scratch);
    Scratch& scratch = pass.ops.scratch;
    TensorView all;  // normed rows of all tokens, where the stream is split
    if (o.place.splits_stream()) {
      const TensorView rows = scratch.allocate(o.precision.compute, x.shape);
      normalise(pass, x, rows, {});
      all = gather_rows(pass, o.place, rows).wait();
    }
    // Fewer tokens must not mean larger pieces: memory is measured for the most tokens of a pass.
    const std::int64_t tokens = losses.rows(), step = std::min(tokens, output_.largest_piece(type));
    const TensorView normed = all ? TensorView() : scratch.allocate(o.precision.compute, {step, o.hidden});
    const TensorView block = scratch.allocate(type, {step, output_.columns()});
    const Distillation& how = pass.batch.distillation;
    const TensorView second = pass.state && OutputLayer::needs_second(how, false)
                                  ? scratch.allocate(type, {step, output_.columns()})
                                  : TensorView();
    const OutputLayer::Targets targets{pass.batch.labels, pass.batch.loss_mask, losses};
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const TensorView h = all ? all.slice(begin, count) : normed.slice(0, count),
                       logits = block.slice(0, count);
      if (!all) normalise(pass, x.slice(begin, count), h, {});
      output_.project(pass, h, logits);
      if (pass.probe) pass.probe->logits(logits, begin, o.vocabulary);
      output_.loss(pass, logits, targets, begin, false);
      if (pass.state && how)
        output_.distil(pass, logits, second ? second.slice(0, count) : second, targets, begin, false);
    }
  }
  if (pass.state)
    ops::run(pass.ops,
             ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
}

void LmHead::normed_rows(Pass& pass, TensorView x, TensorView rows) const {
  if (!options_.place.splits_stream()) return normalise(pass, x, rows, {});
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView own = pass.ops.scratch.allocate(options_.precision.compute, x.shape);
  normalise(pass, x, own, {});
  ops::run(pass.ops,
           ops::CopyRows{.x = gather_rows(pass, options_.place, own).wait(), .index = {}, .y = rows});
}

void LmHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  const TensorView normed = pass.ops.scratch.allocate(options_.precision.compute, {count, options_.hidden});
  for (std::size_t i = 0; i < rows.size();) {  // runs of neighbouring rows at once
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const std::int64_t length = static_cast<std::int64_t>(end - i);
    normalise(pass, x.slice(rows[i], length), normed.slice(static_cast<std::int64_t>(i), length), {});
    i = end;
  }
  output_.project(pass, normed, logits);
}

}  // namespace stoa::nn
