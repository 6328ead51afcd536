#include <algorithm>
#include <cmath>

#include "ops/divergence_column.h"
#include "ops/part_totals.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {
namespace {

PairTotals totals_of(const Values& parts, std::int64_t ranks, std::int64_t rows, std::int64_t t) {
  const auto of = [&](int first) { return part_totals(parts.data(), ranks, rows, t, first).lse(); };
  return {of(0), of(2)};
}

}  // namespace

void ReferenceBackend::execute(const DivergencePart& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  Values part(static_cast<std::size_t>(rows * 4));
  int first = 0;
  for (const TensorView& tensor : {op.logits, op.teacher}) {
    const Values values = load(tensor);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double* row = values.data() + t * width;
      double* out = &part[t * 4 + first];
      out[0] = *std::max_element(row, row + op.columns) / op.temperature;
      for (std::int64_t i = 0; i < op.columns; ++i) out[1] += std::exp(row[i] / op.temperature - out[0]);
    }
    first = 2;
  }
  store(part, op.part);
}

void ReferenceBackend::execute(const DivergenceSums& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  const Values students = load(op.logits), teachers = load(op.teacher), parts = load(op.parts);
  Values sums(static_cast<std::size_t>(rows * 2));
  for (std::int64_t t = 0; t < rows; ++t) {
    const PairTotals totals = totals_of(parts, op.parts.shape[0], rows, t);
    DivergenceTotals own;
    for (std::int64_t i = 0; i < op.columns; ++i)
      DivergenceColumn(op.divergence, totals, students[t * width + i], teachers[t * width + i])
          .add_to(op.divergence, own);
    sums[t * 2] = own.of_teacher, sums[t * 2 + 1] = own.of_student;
  }
  store(sums, op.sums);
}

void ReferenceBackend::execute(const DivergenceMerge& op, Resources) {
  const std::int64_t ranks = op.parts.shape[0], rows = op.logits.shape[0], width = op.logits.shape[1];
  const Divergence& d = op.divergence;
  const Values students = load(op.logits), teachers = load(op.teacher), parts = load(op.parts),
               sums = load(op.sums), mask = load(op.loss_mask);
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values losses(static_cast<std::size_t>(rows)), gradient(students.size());
  for (std::int64_t t = 0; t < rows; ++t) {
    const PairTotals totals = totals_of(parts, ranks, rows, t);
    DivergenceTotals whole;
    for (std::int64_t r = 0; r < ranks; ++r) {
      whole.of_teacher += sums[(r * rows + t) * 2];
      whole.of_student += sums[(r * rows + t) * 2 + 1];
    }
    losses[t] = whole.divergence(d);
    const double weight = mask[t] * seed * d.temperature;  // T squared, and a T of the logits
    for (std::int64_t i = 0; i < op.columns && weight != 0; ++i)
      gradient[t * width + i] =
          weight * DivergenceColumn(d, totals, students[t * width + i], teachers[t * width + i])
                       .slope(d, whole.of_student);
  }
  store(losses, op.losses);
  if (op.gradient) store(gradient, op.gradient);
}

}  // namespace stoa::ops
