#include <algorithm>
#include <cmath>

#include "ops/part_totals.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {
namespace {

// Logarithms of the sums of exponentials of student and teacher.
struct PairTotals {
  double student = 0, teacher = 0;
};

PairTotals totals_of(const Values& parts, std::int64_t ranks, std::int64_t rows, std::int64_t t) {
  const auto of = [&](int first) { return part_totals(parts.data(), ranks, rows, t, first).lse(); };
  return {of(0), of(2)};
}

// What one column says: log q, log p, q, p, log m.
struct Column {
  Column(const Divergence& d, const PairTotals& totals, double student, double teacher)
      : log_q(student / d.temperature - totals.student),
        log_p(teacher / d.temperature - totals.teacher),
        q(std::exp(log_q)),
        p(std::exp(log_p)),
        log_m(d.kind == DivergenceKind::kMixture ? std::log(d.mixture * p + (1 - d.mixture) * q) : 0) {}
  // x log(x / y), which is 0 where x is.
  static double term(double x, double log_x, double log_y) { return x > 0 ? x * (log_x - log_y) : 0; }

  double log_q, log_p, q, p, log_m;
};

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
  const bool mixes = op.divergence.kind == DivergenceKind::kMixture;
  Values sums(static_cast<std::size_t>(rows * 2));
  for (std::int64_t t = 0; t < rows; ++t) {
    const PairTotals totals = totals_of(parts, op.parts.shape[0], rows, t);
    for (std::int64_t i = 0; i < op.columns; ++i) {
      const Column c(op.divergence, totals, students[t * width + i], teachers[t * width + i]);
      if (op.divergence.kind != DivergenceKind::kReverse)
        sums[t * 2] += Column::term(c.p, c.log_p, mixes ? c.log_m : c.log_q);
      if (op.divergence.kind != DivergenceKind::kForward)
        sums[t * 2 + 1] += Column::term(c.q, c.log_q, mixes ? c.log_m : c.log_p);
    }
  }
  store(sums, op.sums);
}

void ReferenceBackend::execute(const DivergenceMerge& op, Resources) {
  const std::int64_t ranks = op.parts.shape[0], rows = op.logits.shape[0], width = op.logits.shape[1];
  const Divergence& d = op.divergence;
  const Values students = load(op.logits), teachers = load(op.teacher), parts = load(op.parts),
               sums = load(op.sums), mask = load(op.loss_mask);
  const double seed = op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)];
  Values losses(static_cast<std::size_t>(rows)), gradient(students.size());
  for (std::int64_t t = 0; t < rows; ++t) {
    const PairTotals totals = totals_of(parts, ranks, rows, t);
    double of_teacher = 0, of_student = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
      of_teacher += sums[(r * rows + t) * 2];
      of_student += sums[(r * rows + t) * 2 + 1];
    }
    const double b = d.kind == DivergenceKind::kMixture ? d.mixture : 0;
    losses[t] = d.temperature * d.temperature *
                (d.kind == DivergenceKind::kForward ? of_teacher : b * of_teacher + (1 - b) * of_student);
    const double weight = mask[t] * seed * d.temperature;  // T squared, and a T of the logits
    for (std::int64_t i = 0; i < op.columns && weight != 0; ++i) {
      const Column c(d, totals, students[t * width + i], teachers[t * width + i]);
      gradient[t * width + i] = weight * (d.kind == DivergenceKind::kForward ? c.q - c.p
                                          : d.kind == DivergenceKind::kReverse
                                              ? Column::term(c.q, c.log_q, c.log_p + of_student)
                                              : (1 - b) * Column::term(c.q, c.log_q, c.log_m + of_student));
    }
  }
  store(losses, op.losses);
  store(gradient, op.gradient);
}

}  // namespace stoa::ops
