#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/step_state.h"

namespace stoa::ops::cpu {
namespace {

float element(const TensorView& row, std::int64_t i) {
  return dispatch_float(row.dtype, [&]<class T>() { return static_cast<float>(row.as<T>()[i]); });
}

void set_element(const TensorView& row, std::int64_t i, float value) {
  dispatch_float(row.dtype, [&]<class T>() { row.as<T>()[i] = static_cast<T>(value); });
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
    const std::int64_t label = labels[t];
    const bool known = label >= 0 && label < op.vocabulary;
    require<DataError>(known || mask[t] == 0,
                       "cross entropy: label {} of token {} is outside the vocabulary of {}", label, t,
                       op.vocabulary);
    const TensorView row = op.logits.slice(t, 1);
    const auto weight = static_cast<float>(static_cast<double>(mask[t]) * seed);
    float lse = 0, at_label = 0;
    losses[t] = 0;  // of a masked token whose label is none
    if (known) {
      float top = 0, sum = 0;
      kernels.exponentials(type, row.data, op.vocabulary, &top, &sum);
      const float log_sum = std::log(sum);
      lse = top + log_sum;
      at_label = element(row, label);
      losses[t] = (top - at_label) + log_sum;
    }
    if (!op.gradient) return;
    if (weight == 0 || !known) return kernels.softmax(type, row.data, 0, width, 0, 0);
    kernels.softmax(type, row.data, op.vocabulary, width, lse, weight);
    set_element(row, label, weight * (std::expm1(at_label - lse)));
  });
}

}  // namespace stoa::ops::cpu
