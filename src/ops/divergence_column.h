// What one column of two predictions adds to their divergence (ops/divergence.h), and its derivative.
#pragma once

#include <cmath>

#include "ops/divergence.h"

namespace stoa::ops {

// Logarithms of the sums of exponentials of student and teacher, of logits over the temperature.
struct PairTotals {
  double student = 0, teacher = 0;
};

// Sums over all columns, of which a kind may need one only.
struct DivergenceTotals {
  double of_teacher = 0, of_student = 0;
  // Times T squared.
  double divergence(const Divergence& d) const {
    const double b = d.kind == DivergenceKind::kForward   ? 1
                     : d.kind == DivergenceKind::kReverse ? 0
                                                          : d.mixture;
    return d.temperature * d.temperature * (b * of_teacher + (1 - b) * of_student);
  }
};

// log q, log p, q, p, log m.
struct DivergenceColumn {
  DivergenceColumn(const Divergence& d, const PairTotals& totals, double student, double teacher)
      : log_q(student / d.temperature - totals.student),
        log_p(teacher / d.temperature - totals.teacher),
        q(std::exp(log_q)),
        p(std::exp(log_p)),
        log_m(d.kind == DivergenceKind::kMixture ? std::log(d.mixture * p + (1 - d.mixture) * q) : 0) {}

  void add_to(const Divergence& d, DivergenceTotals& sums) const {
    const bool mixes = d.kind == DivergenceKind::kMixture;
    if (d.kind != DivergenceKind::kReverse) sums.of_teacher += term(p, log_p, mixes ? log_m : log_q);
    if (d.kind != DivergenceKind::kForward) sums.of_student += term(q, log_q, mixes ? log_m : log_p);
  }
  // Derivative of the divergence, without T squared, by the logit over the temperature.
  double slope(const Divergence& d, double of_student) const {
    if (d.kind == DivergenceKind::kForward) return q - p;
    if (d.kind == DivergenceKind::kReverse) return term(q, log_q, log_p + of_student);
    return (1 - d.mixture) * term(q, log_q, log_m + of_student);
  }

  double log_q, log_p, q, p, log_m;

 private:
  // x log(x / y), which is 0 where x is.
  static double term(double x, double log_x, double log_y) { return x > 0 ? x * (log_x - log_y) : 0; }
};

}  // namespace stoa::ops
