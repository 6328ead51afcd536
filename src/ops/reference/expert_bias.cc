#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {
namespace {

// Calls body(row, expert, assignment) for rows that are used; `assignment` is 0 without order.
template <class Body>
void for_each_row(const TensorView& sorted_experts, const TensorView& order, const Body& body) {
  const auto* experts = sorted_experts.as<std::int32_t>();
  for (std::int64_t i = 0; i < sorted_experts.elements() && experts[i] >= 0; ++i)
    body(i, std::int64_t{experts[i]}, order ? static_cast<std::size_t>(order.as<std::int32_t>()[i]) : 0);
}

}  // namespace

void ReferenceBackend::execute(const ExpertBias& op, Resources) {
  const std::int64_t n = op.y.shape[1];
  const Values bias = load(op.bias), weights = op.weights ? load(op.weights) : Values{1};
  Values y = load(op.y);
  for_each_row(op.sorted_experts, op.order, [&](std::int64_t i, std::int64_t expert, std::size_t a) {
    for (std::int64_t c = 0; c < n; ++c) y[i * n + c] += weights[a] * bias[expert * n + c];
  });
  store(y, op.y);
}

void ReferenceBackend::execute(const ExpertBiasBackward& op, Resources) {
  const std::int64_t n = op.dy.shape[1];
  const Values dy = load(op.dy), weights = op.weights ? load(op.weights) : Values{1};
  Values dbias = op.accumulate ? load(op.dbias) : Values(static_cast<std::size_t>(op.dbias.elements()));
  for_each_row(op.sorted_experts, op.order, [&](std::int64_t i, std::int64_t expert, std::size_t a) {
    for (std::int64_t c = 0; c < n; ++c) dbias[expert * n + c] += weights[a] * dy[i * n + c];
  });
  store(dbias, op.dbias);
}

void ReferenceBackend::execute(const ExpertBiasBackwardWeights& op, Resources) {
  const std::int64_t n = op.dy.shape[1];
  const Values dy = load(op.dy), bias = load(op.bias);
  Values dweights = load(op.dweights);
  for_each_row(op.sorted_experts, op.order, [&](std::int64_t i, std::int64_t expert, std::size_t a) {
    for (std::int64_t c = 0; c < n; ++c) dweights[a] += bias[expert * n + c] * dy[i * n + c];
  });
  store(dweights, op.dweights);
}

}  // namespace stoa::ops
