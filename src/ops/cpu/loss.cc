#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/part_totals.h"
#include "ops/step_state.h"

namespace stoa::ops::cpu {
namespace {

template <class Op>
bool known_label(const Op& op, std::int64_t t) {
  const std::int64_t label = op.labels.template as<std::int32_t>()[t];
  const bool known = label >= 0 && label < op.vocabulary;
  require<DataError>(known || op.loss_mask.template as<float>()[t] == 0,
                     "cross entropy: label {} of token {} is outside the vocabulary of {}", label, t,
                     op.vocabulary);
  return known;
}

// What all columns of a row say together.
struct RowTotals : PartTotals<float> {
  float at_label = 0, total = 0;
};

template <class Op>
float loss_of(const Op& op, const RowTotals& row) {
  if (op.smoothing == 0 && op.z_weight == 0) return (row.top - row.at_label) + row.log_sum;
  const double lse = static_cast<double>(row.top) + static_cast<double>(row.log_sum);
  return static_cast<float>(lse - (1 - op.smoothing) * static_cast<double>(row.at_label) -
                            op.smoothing / static_cast<double>(op.vocabulary) *
                                static_cast<double>(row.total) +
                            op.z_weight * lse * lse);
}

// Gradient of the `columns` logits of a row in their place, zero beyond; `label`: its column, if it is among
// them.
template <class Op>
void gradient_of(const LossKernels& kernels, const Op& op, const RowTotals& totals, float weight,
                 TensorView row, std::int64_t columns, std::int64_t label) {
  const float lse = totals.lse();
  const auto slope = static_cast<float>(1 + 2 * op.z_weight * static_cast<double>(lse));
  const auto uniform = static_cast<float>(op.smoothing / static_cast<double>(op.vocabulary));
  const bool plain = op.smoothing == 0 && op.z_weight == 0;
  const float at_label = label >= 0 && label < columns ? row_element(row, label) : 0;
  kernels.softmax(element_of(row.dtype), row.data, columns, row.shape[1], lse,
                  plain ? weight : weight * slope, weight * uniform);
  if (label < 0 || label >= columns) return;
  // exp(x) - 1 without loss of digits where the label is nearly certain.
  const float difference = std::expm1(at_label - lse);
  set_row_element(
      row, label,
      weight * (plain ? difference
                      : difference * slope + (slope - 1) + static_cast<float>(op.smoothing) - uniform));
}

}  // namespace

void CpuBackend::execute(const CrossEntropy& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const Element type = element_of(op.logits.dtype);
  const std::int64_t width = op.logits.shape[1];
  const auto* labels = op.labels.as<std::int32_t>();
  const auto* mask = op.loss_mask.as<float>();
  auto* losses = op.losses.as<float>();
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  pool_.run(op.logits.rows(), [&](std::int64_t t, int) {
    const bool known = known_label(op, t);
    const TensorView row = op.logits.slice(t, 1);
    const auto weight = static_cast<float>(static_cast<double>(mask[t]) * seed);
    RowTotals totals;
    losses[t] = 0;  // of a masked token whose label is none
    if (known) {
      float sum = 0;
      kernels.exponentials(type, row.data, op.vocabulary, 1, &totals.top, &sum);
      totals.log_sum = std::log(sum);
      totals.at_label = row_element(row, labels[t]);
      if (op.smoothing != 0) totals.total = kernels.total(type, row.data, op.vocabulary);
      losses[t] = loss_of(op, totals);
    }
    if (!op.gradient) return;
    if (weight == 0 || !known) return kernels.softmax(type, row.data, 0, width, 0, 0, 0);
    gradient_of(kernels, op, totals, weight, row, op.vocabulary, labels[t]);
  });
}

void CpuBackend::execute(const CrossEntropyPart& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const Element type = element_of(op.logits.dtype);
  const auto* labels = op.labels.as<std::int32_t>();
  pool_.run(op.logits.rows(), [&](std::int64_t t, int) {
    const TensorView row = op.logits.slice(t, 1);
    float* part = op.part.as<float>() + 4 * t;
    kernels.exponentials(type, row.data, op.columns, 1, &part[0], &part[1]);
    const std::int64_t column = labels[t] - op.first_column;
    part[2] = column >= 0 && column < op.columns ? row_element(row, column) : 0;
    part[3] = kernels.total(type, row.data, op.columns);
  });
}

void CpuBackend::execute(const CrossEntropyMerge& op, Resources resources) {
  if (op.parts.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const std::int64_t ranks = op.parts.shape[0], tokens = op.parts.shape[1];
  const auto* labels = op.labels.as<std::int32_t>();
  const auto* mask = op.loss_mask.as<float>();
  const auto* parts = op.parts.as<float>();
  auto* losses = op.losses.as<float>();
  const double seed = op.logits ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  pool_.run(tokens, [&](std::int64_t t, int) {
    const bool known = known_label(op, t);
    const auto part = [&](std::int64_t rank) { return parts + (rank * tokens + t) * 4; };
    RowTotals totals{part_totals(parts, ranks, tokens, t, 0)};
    for (std::int64_t r = 0; r < ranks; ++r) {
      totals.at_label += part(r)[2];
      totals.total += part(r)[3];
    }
    losses[t] = known ? loss_of(op, totals) : 0;
    if (!op.logits) return;
    const TensorView row = op.logits.slice(t, 1);
    const auto weight = static_cast<float>(static_cast<double>(mask[t]) * seed);
    if (weight == 0 || !known)
      return kernels.softmax(element_of(row.dtype), row.data, 0, row.shape[1], 0, 0, 0);
    gradient_of(kernels, op, totals, weight, row, op.columns, labels[t] - op.first_column);
  });
}

}  // namespace stoa::ops::cpu
