#include <algorithm>
#include <cmath>

#include "ops/part_totals.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {

namespace {

// What all columns of a row say together.
struct RowTotals {
  double lse = 0, at_label = 0, total = 0;  // total: sum of logits
};

template <class Op>
bool known_label(const Op& op, std::int64_t label, double mask, std::int64_t token) {
  const bool known = label >= 0 && label < op.vocabulary;
  require<DataError>(known || mask == 0,
                     "cross entropy: label {} of token {} is outside the vocabulary of {}", label, token,
                     op.vocabulary);
  return known;
}

template <class Op>
double loss_of(const Op& op, const RowTotals& row) {
  const double uniform = op.smoothing / static_cast<double>(op.vocabulary);
  return row.lse - (1 - op.smoothing) * row.at_label - uniform * row.total + op.z_weight * row.lse * row.lse;
}

// Gradient of columns [first, first + columns) in place of their logits; zero beyond.
template <class Op>
void gradient_of(const Op& op, const RowTotals& totals, std::int64_t label, double weight, std::int64_t first,
                 std::int64_t columns, double* row, std::int64_t width) {
  const double uniform = op.smoothing / static_cast<double>(op.vocabulary);
  for (std::int64_t i = 0; i < width; ++i) {
    if (weight == 0 || i >= columns) {
      row[i] = 0;
      continue;
    }
    row[i] = weight * (std::exp(row[i] - totals.lse) * (1 + 2 * op.z_weight * totals.lse) - uniform -
                       (first + i == label ? 1 - op.smoothing : 0.0));
  }
}

}  // namespace

void ReferenceBackend::execute(const CrossEntropy& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  Values logits = load(op.logits);
  const Values mask = load(op.loss_mask);
  const auto labels = load_integers(op.labels);
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values losses(static_cast<std::size_t>(rows));
  for (std::int64_t t = 0; t < rows; ++t) {
    double* row = logits.data() + t * width;
    const bool known = known_label(op, labels[t], mask[t], t);
    const double top = *std::max_element(row, row + op.vocabulary);
    RowTotals totals;
    for (std::int64_t i = 0; i < op.vocabulary; ++i)
      totals.lse += std::exp(row[i] - top), totals.total += row[i];
    totals.lse = top + std::log(totals.lse);
    totals.at_label = known ? row[labels[t]] : 0;
    losses[t] = known ? loss_of(op, totals) : 0;  // a masked token may have any label
    if (op.gradient) gradient_of(op, totals, labels[t], mask[t] * seed, 0, op.vocabulary, row, width);
  }
  store(losses, op.losses);
  if (op.gradient) store(logits, op.logits);
}

void ReferenceBackend::execute(const CrossEntropyPart& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  const Values logits = load(op.logits);
  const auto labels = load_integers(op.labels);
  Values part(static_cast<std::size_t>(rows * 4));
  for (std::int64_t t = 0; t < rows; ++t) {
    const double* row = logits.data() + t * width;
    double* out = &part[t * 4];
    out[0] = *std::max_element(row, row + op.columns);
    for (std::int64_t i = 0; i < op.columns; ++i) out[1] += std::exp(row[i] - out[0]), out[3] += row[i];
    const std::int64_t column = labels[t] - op.first_column;
    if (column >= 0 && column < op.columns) out[2] = row[column];
  }
  store(part, op.part);
}

void ReferenceBackend::execute(const CrossEntropyMerge& op, Resources) {
  const std::int64_t ranks = op.parts.shape[0], rows = op.parts.shape[1];
  const Values parts = load(op.parts), mask = load(op.loss_mask);
  const auto labels = load_integers(op.labels);
  const bool gradient = static_cast<bool>(op.logits);
  Values logits = gradient ? load(op.logits) : Values();
  const std::int64_t width = gradient ? op.logits.shape[1] : 0;
  const double seed = gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values losses(static_cast<std::size_t>(rows));
  for (std::int64_t t = 0; t < rows; ++t) {
    const bool known = known_label(op, labels[t], mask[t], t);
    const auto part = [&](std::int64_t rank) { return &parts[(rank * rows + t) * 4]; };
    RowTotals totals;
    totals.lse = part_totals(parts.data(), ranks, rows, t, 0).lse();
    for (std::int64_t r = 0; r < ranks; ++r) {
      totals.at_label += part(r)[2];
      totals.total += part(r)[3];
    }
    losses[t] = known ? loss_of(op, totals) : 0;
    if (gradient)
      gradient_of(op, totals, labels[t], mask[t] * seed, op.first_column, op.columns,
                  logits.data() + t * width, width);
  }
  store(losses, op.losses);
  if (gradient) store(logits, op.logits);
}

// The CPU backend runs this one too: no copies of the losses, which are as many as tokens.
void ReferenceBackend::execute(const SumLosses& op, Resources) {
  double& sum = op.state.as<double>()[static_cast<int>(StepSlot::kLossSum)];
  const auto add = [&](auto type) {
    using T = decltype(type);
    for (std::int64_t t = 0; t < op.losses.rows(); ++t) {
      const double mask = *op.loss_mask.row<float>(t);
      if (mask != 0) sum += static_cast<double>(*op.losses.row<T>(t)) * mask;
    }
  };
  if (op.losses.dtype == DType::kF64) {
    add(double{});
  } else {
    add(float{});
  }
}

}  // namespace stoa::ops
