// Distillation: the loss of a student compares its predictions with those of a teacher, a model of the same
// vocabulary. A teacher gives the head the logits of a piece of the rows at a time, so that no [all rows,
// vocabulary] tensor exists of it either. Or its most likely tokens were kept before.
#pragma once

#include "ops/divergence.h"
#include "tensor/tensor_view.h"

namespace stoa::nn {

struct Pass;

// temperature^2 x divergence + cross_entropy_weight x cross entropy.
struct DistillationLoss {
  ops::Divergence divergence;
  double cross_entropy_weight = 0;
};

class Teacher {
 public:
  virtual ~Teacher() = default;

  // Logits of the tokens of Distillation::rows that `rows` is a part of, this rank's columns of them
  // [rows, columns]: the same ids as the student's.
  virtual void logits(const Pass& pass, TensorView rows, TensorView logits) const = 0;
};

// What the predictions of a microbatch are compared with.
struct Distillation {
  const DistillationLoss* loss = nullptr;  // none: with nothing
  // A teacher next to the model, and its normed rows of all tokens [T, its width], whole on every rank of a
  // tensor-parallel group.
  const Teacher* teacher = nullptr;
  TensorView rows;
  // Or what was kept of one (ops/kept_divergence.h): int32 [T, k], fp32 [T, k + 1].
  TensorView kept_ids, kept_log_probabilities;
  // fp64 [StepSlot::kCount]: the divergences of the trained tokens, times temperature^2, are added to its
  // slot kLossSum.
  TensorView sums;

  explicit operator bool() const { return loss != nullptr; }
};

}  // namespace stoa::nn
