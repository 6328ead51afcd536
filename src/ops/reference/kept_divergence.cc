#include <cmath>
#include <limits>

#include "ops/kept_classes.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {

void ReferenceBackend::execute(const KeptPart& op, Resources) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1], top = op.ids.shape[1];
  const Values logits = load(op.logits), mask = load(op.loss_mask);
  Values part(static_cast<std::size_t>(rows * (top + 2)));
  for (std::int64_t t = 0; t < rows; ++t) {
    if (mask[t] == 0) continue;
    const std::int32_t* const ids = op.ids.row<std::int32_t>(t);
    double* const out = &part[t * (top + 2)];
    std::fill_n(out, top + 1, kNone);
    std::int64_t next = 0;  // of the ids
    for (std::int64_t i = 0; i < op.columns; ++i) {
      while (next < top && ids[next] < op.first_column + i) ++next;
      const double x = logits[t * width + i];
      if (next < top && ids[next] == op.first_column + i)
        out[next] = x;
      else
        add_exponentials(out[top], out[top + 1], x, 1.0);
    }
  }
  store(part, op.part);
}

void ReferenceBackend::execute(const KeptMerge& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1], top = op.ids.shape[1];
  const bool others = top < op.vocabulary;
  const Values logits = load(op.logits), parts = load(op.parts), mask = load(op.loss_mask);
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values losses(static_cast<std::size_t>(rows)), gradient(logits.size());
  for (std::int64_t t = 0; t < rows; ++t) {
    if (mask[t] == 0) continue;
    const std::vector<double> student =
        classes_of_parts(parts.data(), op.parts.shape[0], rows, t, top, others);
    std::vector<double> slopes(student.size());
    losses[t] = class_divergence(op.divergence, student, {op.log_probabilities.row<float>(t), student.size()},
                                 slopes);
    const double weight = mask[t] * seed;
    const std::int32_t* const ids = op.ids.row<std::int32_t>(t);
    if (others)  // the slope of their sum, by what each has of it
      for (std::int64_t i = 0; i < op.columns; ++i)
        gradient[t * width + i] = weight * slopes.back() * std::exp(logits[t * width + i] - student.back());
    for (std::int64_t i = 0; i < top; ++i) {
      const std::int64_t column = ids[i] - op.first_column;
      if (column >= 0 && column < op.columns)
        gradient[t * width + column] = weight * slopes[static_cast<std::size_t>(i)];
    }
  }
  store(losses, op.losses);
  if (op.gradient) store(gradient, op.gradient);
}

}  // namespace stoa::ops
