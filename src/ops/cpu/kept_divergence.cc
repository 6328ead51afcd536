#include <cstring>
#include <limits>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/kept_classes.h"
#include "ops/step_state.h"

namespace stoa::ops::cpu {
// The other tokens are the columns between the kept ones, a stretch at a time.
void CpuBackend::execute(const KeptPart& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const Element type = element_of(op.logits.dtype);
  const std::int64_t top = op.ids.shape[1];
  pool_.run(op.logits.rows(), [&](std::int64_t t, int) {
    float* const out = op.part.row<float>(t);
    std::fill_n(out, top + 2, 0.0F);
    if (op.loss_mask.as<float>()[t] == 0) return;
    std::fill_n(out, top + 1, -std::numeric_limits<float>::infinity());
    const std::int32_t* const ids = op.ids.row<std::int32_t>(t);
    const TensorView row = op.logits.slice(t, 1);
    std::int64_t begin = 0;
    const auto others_until = [&](std::int64_t end) {
      if (end <= begin) return;
      float highest = 0, sum = 0;
      kernels.exponentials(type, row.columns(begin, end - begin).data, end - begin, 1, &highest, &sum);
      add_exponentials(out[top], out[top + 1], highest, sum);
    };
    for (std::int64_t i = 0; i < top; ++i) {
      const std::int64_t column = ids[i] - op.first_column;
      if (column < 0 || column >= op.columns) continue;
      others_until(column);
      out[i] = row_element(row, column);
      begin = column + 1;
    }
    others_until(op.columns);
  });
}

void CpuBackend::execute(const KeptMerge& op, Resources resources) {
  if (op.logits.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const LossKernels& kernels = STOA_KERNELS(isa_, loss_kernels);
  const Element type = element_of(op.logits.dtype);
  const std::int64_t tokens = op.logits.shape[0], width = op.logits.shape[1], top = op.ids.shape[1];
  const bool others = top < op.vocabulary;
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * size_of(op.logits.dtype);
  pool_.run(tokens, [&](std::int64_t t, int) {
    op.losses.as<float>()[t] = 0;
    const TensorView gradient = op.gradient ? op.gradient.slice(t, 1) : TensorView();
    const double mask = static_cast<double>(op.loss_mask.as<float>()[t]);
    if (mask == 0) {
      if (gradient) std::memset(gradient.data, 0, row_bytes);
      return;
    }
    const std::vector<double> student =
        classes_of_parts(op.parts.as<float>(), op.parts.shape[0], tokens, t, top, others);
    std::vector<double> slopes(student.size());
    op.losses.as<float>()[t] = static_cast<float>(class_divergence(
        op.divergence, student, {op.log_probabilities.row<float>(t), student.size()}, slopes));
    if (!gradient) return;
    const double weight = mask * seed;
    if (others) {  // the slope of their sum, by what each has of it
      const TensorView row = op.logits.slice(t, 1);
      if (gradient.data != row.data) std::memcpy(gradient.data, row.data, row_bytes);
      kernels.softmax(type, gradient.data, op.columns, width, static_cast<float>(student.back()),
                      static_cast<float>(weight * slopes.back()), 0);
    } else {
      std::memset(gradient.data, 0, row_bytes);
    }
    const std::int32_t* const ids = op.ids.row<std::int32_t>(t);
    for (std::int64_t i = 0; i < top; ++i) {
      const std::int64_t column = ids[i] - op.first_column;
      if (column >= 0 && column < op.columns)
        set_row_element(gradient, column, static_cast<float>(weight * slopes[static_cast<std::size_t>(i)]));
    }
  });
}

}  // namespace stoa::ops::cpu
