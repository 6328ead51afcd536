// Shape and type checks of distillation's losses.
#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {
namespace {

template <class Op>
void check_pair(const Checker& c, const Op& op, double temperature) {
  c.tensor("logits", op.logits, TypeSet::any_float(), "[T, V']", {-1, -1});
  c.tensor("teacher", op.teacher, op.logits.dtype, "shape of logits", op.logits.shape);
  c.that(op.columns > 0 && op.columns <= op.logits.shape[1], "columns are {}, expected 1 to {} of logits {}",
         op.columns, op.logits.shape[1], op.logits.text());
  c.that(temperature > 0, "temperature is {}, expected more than 0", temperature);
}

template <class Op>
void check_parts(const Checker& c, const Op& op) {
  check_pair(c, op, op.divergence.temperature);
  c.tensor("parts", op.parts, accumulation_type(op.logits.dtype), "[ranks, T, 4]",
           {-1, op.logits.shape[0], 4});
  c.that(op.parts.shape[0] > 0, "parts are {}, expected those of a rank at least", op.parts.text());
  c.that(op.divergence.mixture > 0 && op.divergence.mixture < 1,
         "mixture is {}, expected more than 0 and less than 1", op.divergence.mixture);
}

}  // namespace

void check(const DivergencePart& op) {
  const Checker c(op);
  check_pair(c, op, op.temperature);
  c.tensor("part", op.part, accumulation_type(op.logits.dtype), "[T, 4]", {op.logits.shape[0], 4});
}

void check(const DivergenceSums& op) {
  const Checker c(op);
  check_parts(c, op);
  c.tensor("sums", op.sums, op.parts.dtype, "[T, 2]", {op.logits.shape[0], 2});
}

void check(const DivergenceMerge& op) {
  const Checker c(op);
  check_parts(c, op);
  const std::int64_t tokens = op.logits.shape[0];
  c.tensor("sums", op.sums, op.parts.dtype, "[ranks, T, 2]", {op.parts.shape[0], tokens, 2});
  c.tensor("loss_mask", op.loss_mask, DType::kF32, "[T]", {tokens});
  c.tensor("state", op.state, DType::kF64, "[step slots]", {static_cast<std::int64_t>(StepSlot::kCount)});
  c.tensor("gradient", op.gradient, op.logits.dtype, "shape of logits", op.logits.shape);
  c.tensor("losses", op.losses, op.parts.dtype, "[T]", {tokens});
}

}  // namespace stoa::ops
