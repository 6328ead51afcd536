#include <algorithm>
#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {

void ReferenceBackend::execute(const CrossEntropy& op, Resources) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  Values logits = load(op.logits);
  const Values mask = load(op.loss_mask);
  const auto labels = load_integers(op.labels);
  const double seed = op.gradient ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values losses(static_cast<std::size_t>(rows));
  for (std::int64_t t = 0; t < rows; ++t) {
    double* row = logits.data() + t * width;
    const std::int64_t label = labels[t];
    const bool known = label >= 0 && label < op.vocabulary;
    require<DataError>(known || mask[t] == 0,
                       "cross entropy: label {} of token {} is outside the vocabulary of {}", label, t,
                       op.vocabulary);
    const double top = *std::max_element(row, row + op.vocabulary);
    double sum = 0;
    for (std::int64_t i = 0; i < op.vocabulary; ++i) sum += std::exp(row[i] - top);
    const double lse = top + std::log(sum);
    losses[t] = known ? lse - row[label] : 0;  // a masked token may have any label
    if (!op.gradient) continue;
    const double weight = mask[t] * seed;
    for (std::int64_t i = 0; i < width; ++i) {
      if (weight == 0 || i >= op.vocabulary) {
        row[i] = 0;
      } else {
        row[i] = weight * (std::exp(row[i] - lse) - (i == label ? 1.0 : 0.0));
      }
    }
  }
  store(losses, op.losses);
  if (op.gradient) store(logits, op.logits);
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
