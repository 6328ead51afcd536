#include "nn/target_head.h"

#include "ops/elementwise.h"

namespace stoa::nn {

TensorView TargetHead::target_of(const Pass& pass, TensorView x) const {
  const std::int64_t source = place_.stream_rows(pass.batch.source_tokens());
  return x.slice(source, x.rows() - source);
}

void TargetHead::train(Pass& pass, TensorView x) const {
  Pass target = pass.on(*pass.batch.target);
  head_->train(target, target_of(pass, x));
  const std::int64_t source = place_.stream_rows(pass.batch.source_tokens());
  ops::run(pass.ops, ops::FillZero{.y = x.slice(0, source)});
}

void TargetHead::evaluate(Pass& pass, TensorView x, TensorView losses) const {
  Pass target = pass.on(*pass.batch.target);
  const std::int64_t source = pass.batch.source_tokens();
  if (source > 0) ops::run(pass.ops, ops::FillZero{.y = losses.slice(0, source)});
  head_->evaluate(target, target_of(pass, x), losses.slice(source, losses.rows() - source));
}

void TargetHead::logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows,
                        TensorView logits) const {
  Pass target = pass.on(*pass.batch.target);
  std::vector<std::int32_t> own(rows.begin(), rows.end());
  for (std::int32_t& row : own) row -= static_cast<std::int32_t>(pass.batch.source_tokens());
  head_->logits(target, target_of(pass, x), own, logits);
}

}  // namespace stoa::nn
