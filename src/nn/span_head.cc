#include "nn/span_head.h"

#include <array>

#include "nn/picked_tokens.h"
#include "nn/tensor_columns.h"
#include "ops/loss.h"

namespace stoa::nn {

SpanHead::SpanHead(const SpanHeadOptions& options)
    : options_(options),
      span_(whole_linear("head.span", options.hidden, 2, options.deviation, options.place)) {}

void SpanHead::declare(ParamList& params, ParamId) { span_.declare(params); }
void SpanHead::declare_tied_copy(ParamList& params) { declare(params, {}); }

void SpanHead::loss(Pass& pass, TensorView logits, TensorView losses, bool train) const {
  const BatchView& batch = pass.batch;
  const MaskedTargets& m = batch.masked;
  const std::int64_t rows = batch.rows;
  require<InternalError>(m.labels.rows() == rows, "{} questions in {} rows", m.labels.rows(), rows);
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView line = scratch.allocate(logits.dtype, {1, batch.length}),
                   ends = scratch.allocate(losses.dtype, {rows}),
                   half = scratch.allocate(DType::kF32, {rows});
  ops::run(pass.ops, ops::Cast{.x = m.mask, .y = half});
  ops::run(pass.ops, ops::Combine{.a = 0.5, .b = 0, .x = half, .y = half});
  struct Side {
    TensorView labels, losses;
  };
  const std::array<Side, 2> sides{{{m.labels, losses}, {m.sentence_labels, ends}}};
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t begin = r * batch.length, count = batch.length;
    if (!batch.row_begin.empty()) {
      begin = batch.row_begin[static_cast<std::size_t>(r)];
      count = batch.row_begin[static_cast<std::size_t>(r) + 1] - begin - (r + 1 == rows ? batch.filling : 0);
    }
    for (std::int64_t s = 0; s < 2; ++s) {
      const Side& side = sides[static_cast<std::size_t>(s)];
      const TensorView column = logits.slice(begin, count).columns(s, 1),
                       place = line.reshape({batch.length, 1}).slice(0, count);
      copy_rows(pass, column, place);
      ops::run(pass.ops, ops::CrossEntropy{.logits = line,
                                           .labels = side.labels.slice(r, 1),
                                           .loss_mask = half.slice(r, 1),
                                           .vocabulary = count,
                                           .gradient = train,
                                           .state = train ? pass.state : TensorView(),
                                           .losses = side.losses.slice(r, 1)});
      if (train) copy_rows(pass, place, column);
    }
  }
  ops::run(pass.ops, ops::Combine{.a = 0.5, .b = 0.5, .x = ends, .y = losses});
  if (pass.state)
    ops::run(pass.ops, ops::SumLosses{.losses = losses, .loss_mask = m.mask, .state = pass.state});
}

void SpanHead::train(Pass& pass, TensorView x) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const DType compute = options_.precision.compute;
  const TensorView all = all_rows(pass, options_.place, x, compute),
                   logits = scratch.allocate(compute, {all.rows(), 2}),
                   losses = scratch.allocate(options_.precision.vectors(), {pass.batch.rows}),
                   dall = scratch.allocate(compute, all.shape);
  span_.forward(pass, all, logits);
  // Tokens that fill the last row up are in no softmax.
  if (const std::int64_t filling = pass.batch.filling; filling > 0)
    ops::run(pass.ops, ops::FillZero{.y = logits.slice(all.rows() - filling, filling)});
  loss(pass, logits, losses, true);
  pass.show("head", ".losses", losses);
  span_.backward(pass, Which::kBoth, all, logits, dall);
  ops::run(pass.ops, ops::Cast{.x = dall.slice(options_.place.first_row(all.rows()), x.rows()), .y = x});
}

void SpanHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = all_rows(pass, options_.place, x, options_.precision.compute),
                   logits = pass.ops.scratch.allocate(options_.precision.vectors(), {all.rows(), 2});
  span_.forward(pass, all, logits);
  loss(pass, logits, losses.slice(0, pass.batch.rows), false);
}

void SpanHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  span_.forward(pass, pick_rows(pass, options_.place, x, rows, options_.precision.compute), logits);
}

}  // namespace stoa::nn
