// Shape and type checks of the loss and of the update.
#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {

namespace {

void check_state(const Checker& c, const TensorView& state) {
  c.tensor("state", state, DType::kF64, "[step slots]", {static_cast<std::int64_t>(StepSlot::kCount)});
}

template <class Op>
void check_update(const Checker& c, const Op& op) {
  c.tensor("master", op.master, TypeSet(DType::kF64) | DType::kF32, "any shape", op.master.shape);
  c.tensor("gradient", op.gradient, op.master.dtype, "shape of master", op.master.shape);
  c.optional("compute", op.compute, TypeSet::floats_like(op.master.dtype), "shape of master",
             op.master.shape);
  c.apart("compute", op.compute, "master", op.master);
  check_state(c, op.state);
}

template <class Op>
void check_loss_terms(const Checker& c, const Op& op) {
  c.probability("smoothing", op.smoothing);
  c.that(op.z_weight >= 0, "z_weight is {}, expected 0 or more", op.z_weight);
}

}  // namespace

void check(const CrossEntropy& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, TypeSet::any_float(), "[T, V']", {-1, -1});
  const std::int64_t tokens = op.logits.shape[0];
  c.that(op.vocabulary > 0 && op.vocabulary <= op.logits.shape[1],
         "vocabulary is {}, expected 1 to {} columns of logits {}", op.vocabulary, op.logits.shape[1],
         op.logits);
  c.tensor("labels", op.labels, DType::kI32, "[T]", {tokens});
  c.tensor("loss_mask", op.loss_mask, DType::kF32, "[T]", {tokens});
  c.tensor("losses", op.losses, accumulation_type(op.logits.dtype), "[T]", {tokens});
  if (op.gradient) check_state(c, op.state);
  check_loss_terms(c, op);
}

void check(const CrossEntropyPart& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, TypeSet::any_float(), "[T, V']", {-1, -1});
  c.that(op.first_column >= 0 && op.columns > 0 && op.columns <= op.logits.shape[1],
         "columns are {} from {}, expected 1 to {} columns of logits {}", op.columns, op.first_column,
         op.logits.shape[1], op.logits);
  c.tensor("labels", op.labels, DType::kI32, "[T]", {op.logits.shape[0]});
  c.tensor("part", op.part, accumulation_type(op.logits.dtype), "[T, 4]", {op.logits.shape[0], 4});
}

void check(const CrossEntropyMerge& op) {
  const Checker c(op);
  c.tensor("parts", op.parts, TypeSet(DType::kF64) | DType::kF32, "[ranks, T, 4]", {-1, -1, 4});
  c.that(op.parts.shape[0] > 0, "parts are {}, expected those of a rank at least", op.parts);
  const std::int64_t tokens = op.parts.shape[1];
  c.that(op.first_column >= 0 && op.columns > 0 && op.first_column + op.columns <= op.vocabulary,
         "columns are {} from {} of a vocabulary of {}", op.columns, op.first_column, op.vocabulary);
  if (c.optional("logits", op.logits, TypeSet::floats_like(op.parts.dtype), "[T, V']", {tokens, -1})) {
    c.that(op.columns <= op.logits.shape[1], "columns are {}, expected at most those of logits {}",
           op.columns, op.logits);
    check_state(c, op.state);
  }
  c.tensor("labels", op.labels, DType::kI32, "[T]", {tokens});
  c.tensor("loss_mask", op.loss_mask, DType::kF32, "[T]", {tokens});
  c.tensor("losses", op.losses, op.parts.dtype, "[T]", {tokens});
  check_loss_terms(c, op);
}

void check(const SumLosses& op) {
  const Checker c(op);
  c.tensor("losses", op.losses, TypeSet(DType::kF64) | DType::kF32, "[T]", {-1});
  c.tensor("loss_mask", op.loss_mask, DType::kF32, "[T]", {op.losses.shape[0]});
  check_state(c, op.state);
}

void check(const BeginStep& op) {
  const Checker c(op);
  check_state(c, op.state);
  c.that(op.tokens >= 0, "tokens are {}, expected 0 or more", op.tokens);
}

void check(const SumSquares& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet(DType::kF64) | DType::kF32, "any shape", op.x.shape);
  const CanonicalCut& cut = op.cut;
  c.that(cut.origin >= 0 && cut.skip >= 0 && cut.width > 0 && cut.pitch >= cut.width,
         "a part with rows of {} in rows of {}, origin {}, {} skipped", cut.width, cut.pitch, cut.origin,
         cut.skip);
  c.tensor("sums", op.sums, DType::kF64, "[blocks that x touches]", {op.blocks()});
}

void check(const AddSquares& op) {
  const Checker c(op);
  c.tensor("sums", op.sums, DType::kF64, "[blocks]", {-1});
  check_state(c, op.state);
}

void check(const PrepareUpdate& op) {
  const Checker c(op);
  check_state(c, op.state);
  c.that(op.max_norm >= 0, "max_norm is {}, expected 0 (no clipping) or more", op.max_norm);
  c.that(op.samples >= 0, "samples are {}, expected 0 or more", op.samples);
}

void check(const AdamUpdate& op) {
  const Checker c(op);
  check_update(c, op);
  c.tensor("m", op.m, op.master.dtype, "shape of master", op.master.shape);
  c.tensor("v", op.v, op.master.dtype, "shape of master", op.master.shape);
  c.that(op.beta1 >= 0 && op.beta1 < 1 && op.beta2 >= 0 && op.beta2 < 1, "betas are {}, {}, expected [0, 1)",
         op.beta1, op.beta2);
  c.that(op.epsilon >= 0, "epsilon is {}, expected 0 or more", op.epsilon);
}

void check(const SgdUpdate& op) {
  const Checker c(op);
  check_update(c, op);
  if (!c.optional("momentum", op.momentum, op.master.dtype, "shape of master", op.master.shape))
    c.that(op.momentum_factor == 0, "momentum factor is {} but there is no momentum tensor",
           op.momentum_factor);
}

void check(const ExpertBiasUpdate& op) {
  const Checker c(op);
  c.tensor("bias", op.bias, TypeSet(DType::kF64) | DType::kF32, "any shape", op.bias.shape);
  c.tensor("excess", op.excess, op.bias.dtype, "shape of bias", op.bias.shape);
  check_state(c, op.state);
}

void check(const AmaxHistoryUpdate& op) {
  const Checker c(op);
  c.tensor("history", op.history, TypeSet(DType::kF64) | DType::kF32, "[N, L]", {-1, -1});
  const std::int64_t count = op.history.shape[0];
  c.that(op.history.shape[1] > 0, "history is {}, expected a length of 1 or more", op.history);
  c.tensor("seen", op.seen, op.history.dtype, "[N]", {count});
  c.tensor("amax", op.amax, op.history.dtype, "[N]", {count});
  check_state(c, op.state);
}

void check(const MuonMomentum& op) {
  const Checker c(op);
  c.tensor("gradient", op.gradient, TypeSet(DType::kF64) | DType::kF32, "any shape", op.gradient.shape);
  c.tensor("momentum", op.momentum, op.gradient.dtype, "shape of gradient", op.gradient.shape);
  c.tensor("direction", op.direction, op.gradient.dtype, "shape of gradient", op.gradient.shape);
  check_state(c, op.state);
}

void check(const UnitNorm& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet(DType::kF64) | DType::kF32, "any shape", op.x.shape);
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape);
}

void check(const MuonUpdate& op) {
  const Checker c(op);
  c.tensor("master", op.master, TypeSet(DType::kF64) | DType::kF32, "any shape", op.master.shape);
  c.tensor("direction", op.direction, op.master.dtype, "shape of master", op.master.shape);
  c.optional("compute", op.compute, TypeSet::floats_like(op.master.dtype), "shape of master",
             op.master.shape);
  c.apart("compute", op.compute, "master", op.master);
  check_state(c, op.state);
}

}  // namespace stoa::ops
