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

namespace stoa::ops {

// The student's classes of token t, of the parts [ranks, tokens, k + 2] that KeptPart made.
template <class T>
std::vector<double> classes_of_parts(const T* parts, std::int64_t ranks, std::int64_t tokens, std::int64_t t,
                                     std::int64_t top, bool others) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<double> out(static_cast<std::size_t>(top + (others ? 1 : 0)), kNone);
  const auto part = [&](std::int64_t rank) { return parts + (rank * tokens + t) * (top + 2); };
  double highest = kNone, sum = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (std::int64_t i = 0; i < top; ++i)
      out[static_cast<std::size_t>(i)] =
          std::max(out[static_cast<std::size_t>(i)], static_cast<double>(part(r)[i]));
    highest = std::max(highest, static_cast<double>(part(r)[top]));
  }
  if (!others) return out;
  for (std::int64_t r = 0; r < ranks; ++r)
    if (part(r)[top + 1] > 0)
      sum += static_cast<double>(part(r)[top + 1]) * std::exp(static_cast<double>(part(r)[top]) - highest);
  out.back() = highest + std::log(sum);
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
