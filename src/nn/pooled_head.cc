#include "nn/pooled_head.h"

#include "nn/picked_tokens.h"
#include "nn/seeded.h"
#include "ops/elementwise.h"
#include "ops/scale_matrix.h"

namespace stoa::nn {

void PooledHead::train(Pass& pass, TensorView x) const {
  const MaskedTargets& m = pass.batch.masked;
  const std::int64_t texts = m.vector_gradients.rows(), hidden = options_.hidden;
  const DType wide = options_.precision.vectors();
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView gradients = scratch.allocate(x.dtype, {m.rows.rows() + 1, hidden});
  ops::run(pass.ops, ops::FillZero{.y = gradients.slice(texts, gradients.rows() - texts)});
  {
    Scratch::Frame inner(scratch);
    const TensorView given = scratch.allocate(wide, {texts, hidden}),
                     seeds = scratch.allocate(wide, {texts, 1});
    ops::run(pass.ops, ops::Cast{.x = m.vector_gradients, .y = given});
    seeded_weights(pass, m.mask, seeds);
    ops::run(
        pass.ops,
        ops::ScaleMatrix{.x = given, .rows = seeds.reshape({texts}), .columns = {}, .bias = {}, .y = given});
    ops::run(pass.ops, ops::Cast{.x = given, .y = gradients.slice(0, texts)});
  }
  scatter_rows(pass, options_.place, gradients, x);
}

void PooledHead::evaluate(Pass& pass, TensorView, TensorView losses) const {
  ops::run(pass.ops, ops::FillZero{.y = losses});
}

void PooledHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                        TensorView logits) const {
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::Cast{.x = pick_rows(pass, options_.place, x, rows, x.dtype), .y = logits});
}

}  // namespace stoa::nn
