#include <algorithm>

#include "ops/all.h"

namespace stoa::ops {

namespace {

double product(const Shape& rows, const TensorView& matrix) {
  return 2.0 * static_cast<double>(rows[0]) * static_cast<double>(matrix.elements());
}

// Sum over x from 0 of the keys seen by a query with x keys before it: min(x, window), not counting the
// query's own key, so that a causal square counts as exactly half of a full one.
double triangle(double x, double window) {
  if (window <= 0 || x <= window) return x * x / 2;
  return window * window / 2 + window * (x - window);
}

// Pairs of query and key that are visible. Only the device knows where segments begin and end, so all count
// as long as the longest: packed documents that cannot see each other count as one sequence, which is also
// the convention of published figures.
template <class Op>
double visible_pairs(const Op& op) {
  const double tokens = static_cast<double>(op.q.shape[0]);
  const double q = static_cast<double>(std::max<std::int64_t>(1, op.segments.longest_q));
  const double k = static_cast<double>(std::max<std::int64_t>(1, op.segments.longest_k));
  if (!op.options.causal || op.segments.behind) return tokens * k;  // all keys lie before the queries
  const double window = static_cast<double>(op.options.window);
  return tokens / q * (triangle(k, window) - triangle(std::max(0.0, k - q), window));
}

template <class Op>
double attention_product(const Op& op) {
  return 2.0 * visible_pairs(op) * static_cast<double>(op.q.shape[1] * op.q.shape[2]);
}

// FLOPs of the products in the chunked gated delta rule.
struct DeltaProducts {
  double with_state;       // tokens times states, for every value head
  double keys_by_token;    // keys, or queries, by earlier keys of the chunk: half of the matrix
  double values_by_token;  // the same for values

  template <class Op>
  explicit DeltaProducts(const Op& op) {
    const double tokens = static_cast<double>(op.q.rows()), chunk = static_cast<double>(kDeltaChunk);
    const double heads = static_cast<double>(op.v.shape[1]), dk = static_cast<double>(op.q.shape[2]),
                 dv = static_cast<double>(op.v.shape[2]);
    with_state = 2 * tokens * heads * dk * dv;
    keys_by_token = tokens * static_cast<double>(op.q.shape[1]) * chunk * dk;
    values_by_token = tokens * heads * chunk * dv;
  }
};

}  // namespace

template <>
double matrix_flops(const LinearForward& op) {
  return product(op.x.shape, op.w) + (op.x2 ? product(op.x2.shape, op.w2) : 0);
}
template <>
double matrix_flops(const LinearBackwardInput& op) {
  return product(op.dy.shape, op.w) + (op.dy2 ? product(op.dy2.shape, op.w2) : 0);
}
template <>
double matrix_flops(const LinearBackwardWeight& op) {
  return product(op.x.shape, op.dw);
}
template <>
double matrix_flops(const PackedLinearForward& op) {
  return 2.0 * static_cast<double>(op.y.elements()) * static_cast<double>(op.shape.columns);
}
template <>
double matrix_flops(const PackedLinearBackwardInput& op) {
  return 2.0 * static_cast<double>(op.dy.elements()) * static_cast<double>(op.shape.columns);
}
template <>
double matrix_flops(const QuantisedLinear& op) {
  return 2.0 * static_cast<double>(op.y.elements()) * static_cast<double>(op.shape.columns);
}
template <>
double matrix_flops(const GroupedQuantisedLinear& op) {
  return 2.0 * static_cast<double>(op.y.elements()) * static_cast<double>(op.shape.columns);
}
template <>
double matrix_flops(const ScaledProduct& op) {
  return product(op.a.shape, op.b);
}
// Every row is multiplied by one expert's matrix [N, K].
template <>
double matrix_flops(const GroupedLinearForward& op) {
  return 2.0 * static_cast<double>(op.y.elements()) * static_cast<double>(op.x.shape[1]);
}
template <>
double matrix_flops(const GroupedLinearBackwardInput& op) {
  return 2.0 * static_cast<double>(op.dy.elements()) * static_cast<double>(op.dx.shape[1]);
}
template <>
double matrix_flops(const GroupedLinearBackwardWeight& op) {
  return 2.0 * static_cast<double>(op.dy.elements()) * static_cast<double>(op.x.shape[1]);
}
template <>
double matrix_flops(const AttentionForward& op) {
  return 2 * attention_product(op);  // q k^T, p v
}
template <>
double matrix_flops(const AttentionBackward& op) {
  return 5 * attention_product(op);  // q k^T again, dout v^T, and the three gradients
}
// Chunked: products of tokens with states, and of tokens with earlier ones of the chunk.
template <>
double matrix_flops(const GatedDeltaForward& op) {
  const DeltaProducts p(op);
  return 3 * p.with_state + 2 * p.keys_by_token + 2 * p.values_by_token;
}
template <>
double matrix_flops(const GatedDeltaBackward& op) {
  const DeltaProducts p(op);
  return 10 * p.with_state + 6 * p.keys_by_token + 5 * p.values_by_token;
}

}  // namespace stoa::ops
