#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/divergence_kernels.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/divergence_column.h"
#include "ops/part_totals.h"
#include "ops/step_state.h"

namespace stoa::ops::cpu {
namespace {

// Token t of an operation with the parts of all ranks.
template <class Op>
DivergenceRow row_of(const Op& op, std::int64_t t) {
  const auto lse = [&](int first) {
    return part_totals(op.parts.template as<float>(), op.parts.shape[0], op.parts.shape[1], t, first).lse();
  };
  DivergenceRow row;
  row.type = element_of(op.logits.dtype);
  row.student = op.logits.slice(t, 1).data;
  row.teacher = op.teacher.slice(t, 1).data;
  row.n = op.columns;
  row.kind = op.divergence.kind;
  row.inverse_temperature = static_cast<float>(1 / op.divergence.temperature);
  row.mixture = static_cast<float>(op.divergence.mixture);
  row.student_lse = lse(0);
  row.teacher_lse = lse(2);
  return row;
}

}  // namespace

void CpuBackend::execute(const DivergencePart& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const Element type = element_of(op.logits.dtype);
  const auto scale = static_cast<float>(1 / op.temperature);
  pool_.run(op.logits.rows(), [&](std::int64_t t, int) {
    float* part = op.part.as<float>() + 4 * t;
    kernels.exponentials(type, op.logits.slice(t, 1).data, op.columns, scale, &part[0], &part[1]);
    kernels.exponentials(type, op.teacher.slice(t, 1).data, op.columns, scale, &part[2], &part[3]);
  });
}

void CpuBackend::execute(const DivergenceSums& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const DivergenceKernels& kernels = STOA_KERNELS(isa_, divergence_kernels);
  pool_.run(op.logits.rows(), [&](std::int64_t t, int) {
    float* sums = op.sums.as<float>() + 2 * t;
    kernels.sums(row_of(op, t), &sums[0], &sums[1]);
  });
}

void CpuBackend::execute(const DivergenceMerge& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const DivergenceKernels& kernels = STOA_KERNELS(isa_, divergence_kernels);
  const std::int64_t ranks = op.parts.shape[0], tokens = op.parts.shape[1];
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  pool_.run(tokens, [&](std::int64_t t, int) {
    DivergenceTotals whole;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const float* sums = op.sums.as<float>() + (r * tokens + t) * 2;
      whole.of_teacher += static_cast<double>(sums[0]), whole.of_student += static_cast<double>(sums[1]);
    }
    op.losses.as<float>()[t] = static_cast<float>(whole.divergence(op.divergence));
    if (!op.gradient) return;
    const double weight = static_cast<double>(op.loss_mask.as<float>()[t]) * seed * op.divergence.temperature;
    DivergenceRow row = row_of(op, t);
    if (weight == 0) row.n = 0;
    kernels.gradient(row, static_cast<float>(weight), static_cast<float>(whole.of_student),
                     op.gradient.slice(t, 1).data, op.gradient.shape[1]);
  });
}

}  // namespace stoa::ops::cpu
