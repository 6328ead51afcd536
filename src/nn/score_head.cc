#include "nn/score_head.h"

#include "nn/picked_tokens.h"
#include "nn/seeded.h"
#include "ops/elementwise.h"
#include "ops/loss.h"

namespace stoa::nn {

ScoreHead::ScoreHead(const ScoreHeadOptions& options)
    : options_(options),
      score_(whole_linear(options.name, options.hidden, 1, options.deviation, options.place,
                          /*bias=*/false)) {}

void ScoreHead::declare(ParamList& params, ParamId) { score_.declare(params); }
void ScoreHead::declare_tied_copy(ParamList& params) { declare(params, {}); }

void ScoreHead::loss(Pass& pass, TensorView rows, TensorView losses) const {
  score_.forward(pass, rows, losses.reshape({losses.rows(), 1}));
  ops::run(pass.ops, ops::Combine{.a = -1, .b = 0, .x = losses, .y = losses});
  if (pass.state)
    ops::run(pass.ops,
             ops::SumLosses{.losses = losses, .loss_mask = pass.batch.loss_mask, .state = pass.state});
}

TensorView ScoreHead::gradient(Pass& pass) const {
  Scratch& scratch = pass.ops.scratch;
  const DType wide = options_.precision.vectors(), compute = options_.precision.compute;
  const std::int64_t tokens = pass.batch.loss_mask.rows();
  const TensorView out = scratch.allocate(compute, {tokens, 1});
  Scratch::Frame frame(scratch);
  const TensorView product = scratch.allocate(wide, {tokens, 1});
  seeded_weights(pass, pass.batch.loss_mask, product);
  ops::run(pass.ops, ops::Combine{.a = -1, .b = 0, .x = product, .y = product});
  ops::run(pass.ops, ops::Cast{.x = product, .y = out});
  return out;
}

void ScoreHead::train(Pass& pass, TensorView x) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView rows = all_rows(pass, options_.place, x, options_.precision.compute);
  const TensorView losses = scratch.allocate(options_.precision.vectors(), {rows.rows()}),
                   gradients = scratch.allocate(rows.dtype, rows.shape);
  loss(pass, rows, losses);
  pass.show("head", ".losses", losses);
  score_.backward(pass, Which::kBoth, rows, gradient(pass), gradients);
  const std::int64_t first = options_.place.first_row(rows.rows());
  ops::run(pass.ops, ops::Cast{.x = gradients.slice(first, x.rows()), .y = x});
}

void ScoreHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  Scratch::Frame frame(pass.ops.scratch);
  loss(pass, all_rows(pass, options_.place, x, options_.precision.compute), losses);
}

void ScoreHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                       TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  score_.forward(pass, pick_rows(pass, options_.place, x, rows, options_.precision.compute), logits);
}

}  // namespace stoa::nn
