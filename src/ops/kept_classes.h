// Classes of a distillation by kept predictions (ops/kept_divergence.h): the kept tokens, then all others as
// one, which does not exist where the whole vocabulary is kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ops/divergence_column.h"
#include "ops/part_totals.h"

namespace stoa::ops {

// The student's classes of token t, of the parts [ranks, tokens, k + 2] that KeptPart made.
template <class T>
std::vector<double> classes_of_parts(const T* parts, std::int64_t ranks, std::int64_t tokens, std::int64_t t,
                                     std::int64_t top, bool others) {
  std::vector<double> out(static_cast<std::size_t>(top + (others ? 1 : 0)));
  const auto of_rank = [&](std::int64_t rank, std::int64_t i) {
    return static_cast<double>(parts[(rank * tokens + t) * (top + 2) + i]);
  };
  // One rank has the logit of a kept token.
  for (std::int64_t i = 0; i < top; ++i) {
    double& logit = out[static_cast<std::size_t>(i)] = of_rank(0, i);
    for (std::int64_t r = 1; r < ranks; ++r) logit = std::max(logit, of_rank(r, i));
  }
  if (others) out.back() = part_totals<T, double>(parts, ranks, tokens, t, top, top + 2).lse();
  return out;
}

// Adds to the highest logit and the sum of exponentials relative to it those of further columns.
template <class T>
void add_exponentials(T& highest, T& sum, T other_highest, T other_sum) {
  if (other_highest <= highest) {
    sum += other_sum * std::exp(other_highest - highest);
    return;
  }
  sum = sum * std::exp(highest - other_highest) + other_sum;
  highest = other_highest;
}

// The divergence of classes, times T squared; `slopes` become its derivatives by the student's.
inline double class_divergence(const Divergence& d, std::span<const double> student,
                               std::span<const float> teacher, std::span<double> slopes) {
  const auto total = [&](const auto& logits) {
    double highest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const auto x : logits) highest = std::max(highest, static_cast<double>(x) / d.temperature);
    for (const auto x : logits) sum += std::exp(static_cast<double>(x) / d.temperature - highest);
    return highest + std::log(sum);
  };
  const PairTotals totals{total(student), total(teacher)};
  DivergenceTotals sums;
  const auto column = [&](std::size_t i) {
    return DivergenceColumn(d, totals, student[i], static_cast<double>(teacher[i]));
  };
  for (std::size_t i = 0; i < student.size(); ++i) column(i).add_to(d, sums);
  for (std::size_t i = 0; i < student.size(); ++i)
    slopes[i] = d.temperature * column(i).slope(d, sums.of_student);
  return sums.divergence(d);
}

}  // namespace stoa::ops
