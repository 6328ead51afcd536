// Distillation: the loss of a student compares its predictions with those of a teacher, a model of the same
// vocabulary. A teacher gives the head the logits of a piece of the rows at a time, so that no [all rows,
// vocabulary] tensor exists of it either.
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

  virtual const DistillationLoss& loss() const = 0;
  // Logits of the tokens of BatchView::teacher_rows that `rows` is a part of, this rank's columns of them
  // [rows, columns]: the same ids as the student's.
  virtual void logits(const Pass& pass, TensorView rows, TensorView logits) const = 0;
};

}  // namespace stoa::nn
