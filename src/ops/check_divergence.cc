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
         op.columns, op.logits.shape[1], op.logits);
  c.that(temperature > 0, "temperature is {}, expected more than 0", temperature);
}

template <class Op>
void check_parts(const Checker& c, const Op& op) {
  check_pair(c, op, op.divergence.temperature);
  c.tensor("parts", op.parts, accumulation_type(op.logits.dtype), "[ranks, T, 4]",
           {-1, op.logits.shape[0], 4});
  c.that(op.parts.shape[0] > 0, "parts are {}, expected those of a rank at least", op.parts);
  c.that(op.divergence.mixture > 0 && op.divergence.mixture < 1,
         "mixture is {}, expected more than 0 and less than 1", op.divergence.mixture);
}

template <class Op>
void check_gradient(const Checker& c, const Op& op) {
  if (c.optional("gradient", op.gradient, op.logits.dtype, "shape of logits", op.logits.shape))
    c.tensor("state", op.state, DType::kF64, "[step slots]", {static_cast<std::int64_t>(StepSlot::kCount)});
}

template <class Op>
void check_kept(const Checker& c, const Op& op) {
  c.tensor("logits", op.logits, TypeSet::any_float(), "[T, V']", {-1, -1});
  const std::int64_t tokens = op.logits.shape[0];
  c.tensor("ids", op.ids, DType::kI32, "[T, k]", {tokens, -1});
  c.that(op.ids.shape[1] > 0, "ids are {}, expected one per token at least", op.ids);
  c.tensor("loss_mask", op.loss_mask, DType::kF32, "[T]", {tokens});
  c.that(op.first_column >= 0 && op.columns > 0 && op.columns <= op.logits.shape[1],
         "columns are {} from {}, expected 1 to {} of logits {}", op.columns, op.first_column,
         op.logits.shape[1], op.logits);
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
  check_gradient(c, op);
  c.tensor("losses", op.losses, op.parts.dtype, "[T]", {tokens});
}

void check(const KeptPart& op) {
  const Checker c(op);
  check_kept(c, op);
  c.tensor("part", op.part, accumulation_type(op.logits.dtype), "[T, k + 2]",
           {op.logits.shape[0], op.ids.shape[1] + 2});
}

void check(const KeptMerge& op) {
  const Checker c(op);
  check_kept(c, op);
  const std::int64_t tokens = op.logits.shape[0], top = op.ids.shape[1];
  c.tensor("log_probabilities", op.log_probabilities, DType::kF32, "[T, k + 1]", {tokens, top + 1});
  c.tensor("parts", op.parts, accumulation_type(op.logits.dtype), "[ranks, T, k + 2]", {-1, tokens, top + 2});
  c.that(op.parts.shape[0] > 0, "parts are {}, expected those of a rank at least", op.parts);
  c.that(top <= op.vocabulary && op.first_column + op.columns <= op.vocabulary,
         "{} kept tokens and columns {} to {}, of a vocabulary of {}", top, op.first_column,
         op.first_column + op.columns, op.vocabulary);
  c.that(op.divergence.temperature > 0, "temperature is {}, expected more than 0", op.divergence.temperature);
  c.that(op.divergence.mixture > 0 && op.divergence.mixture < 1,
         "mixture is {}, expected more than 0 and less than 1", op.divergence.mixture);
  check_gradient(c, op);
  c.tensor("losses", op.losses, op.parts.dtype, "[T]", {tokens});
}

}  // namespace stoa::ops
