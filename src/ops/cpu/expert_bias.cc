// Plain loops that the compiler vectorises: their cost is small compared with the experts' GEMMs.
#include <algorithm>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

// Columns of a bias' gradient per task.
constexpr std::int64_t kBiasColumns = 256;

// The router weight of row i, and its assignment.
struct RowWeights {
  const std::int32_t* order;
  const float* weights;

  template <class Op>
  explicit RowWeights(const Op& op)
      : order(op.order ? op.order.template as<std::int32_t>() : nullptr),
        weights(op.weights ? op.weights.template as<float>() : nullptr) {}
  float operator[](std::int64_t i) const { return weights ? weights[order[i]] : 1.0f; }
};

}  // namespace

void CpuBackend::execute(const ExpertBias& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t n = op.y.shape[1];
  const auto* experts = op.sorted_experts.as<std::int32_t>();
  const float* bias = op.bias.as<float>();
  const RowWeights weights(op);
  with_float(op.y.dtype, [&]<class T>() {
    T* y = op.y.as<T>();
    run_pieces(pool_, op.y.rows(), rows_per_task(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end && experts[i] >= 0; ++i) {
        const float weight = weights[i], *own = bias + experts[i] * n;
        T* row = y + i * n;
        for (std::int64_t c = 0; c < n; ++c) row[c] = T(static_cast<float>(row[c]) + weight * own[c]);
      }
    });
  });
}

// An expert's rows are added in their order, so that results do not depend on the number of workers.
void CpuBackend::execute(const ExpertBiasBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t n = op.dy.shape[1], rows = op.sorted_experts.elements();
  const auto* experts = op.sorted_experts.as<std::int32_t>();
  float* dbias = op.dbias.as<float>();
  const RowWeights weights(op);
  with_float(op.dy.dtype, [&]<class T>() {
    const T* dy = op.dy.as<T>();
    run_pieces(pool_, n, kBiasColumns, [&](std::int64_t begin, std::int64_t end) {
      if (!op.accumulate)
        for (std::int64_t e = 0; e < op.dbias.shape[0]; ++e)
          std::fill(dbias + e * n + begin, dbias + e * n + end, 0.0f);
      for (std::int64_t i = 0; i < rows && experts[i] >= 0; ++i) {
        const float weight = weights[i];
        float* to = dbias + experts[i] * n;
        for (std::int64_t c = begin; c < end; ++c) to[c] += weight * static_cast<float>(dy[i * n + c]);
      }
    });
  });
}

void CpuBackend::execute(const ExpertBiasBackwardWeights& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t n = op.dy.shape[1];
  const auto *experts = op.sorted_experts.as<std::int32_t>(), *order = op.order.as<std::int32_t>();
  const float* bias = op.bias.as<float>();
  float* dweights = op.dweights.as<float>();
  with_float(op.dy.dtype, [&]<class T>() {
    const T* dy = op.dy.as<T>();
    run_pieces(pool_, op.dy.rows(), rows_per_task(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end && experts[i] >= 0; ++i) {
        constexpr std::int64_t kLanes = 16;  // added up in order
        float lanes[kLanes] = {}, sum = 0;
        const float* own = bias + experts[i] * n;
        const T* row = dy + i * n;
        std::int64_t c = 0;
        for (; c + kLanes <= n; c += kLanes)
          for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += own[c + l] * static_cast<float>(row[c + l]);
        for (; c < n; ++c) sum += own[c] * static_cast<float>(row[c]);
        for (const float lane : lanes) sum += lane;
        dweights[order[i]] += sum;
      }
    });
  });
}

}  // namespace stoa::ops::cpu
