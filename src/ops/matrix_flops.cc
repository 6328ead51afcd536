#include <algorithm>

#include "ops/all.h"

namespace stoa::ops {

namespace {

double product(const Shape& rows, const TensorView& matrix) {
  return 2.0 * static_cast<double>(rows[0]) * static_cast<double>(matrix.elements());
}

// Sum over x from 0 of the keys that a query with x keys before it sees: min(x, window), without the +1 of
// the query itself, so that a causal square counts as exactly half of a full one.
double triangle(double x, double window) {
  if (window <= 0 || x <= window) return x * x / 2;
  return window * window / 2 + window * (x - window);
}

// Visible pairs of query and key. Where segments begin and end is known to the device alone, so all count as
// long as the longest: packed documents that may not see each other are counted as published figures count
// them, as one sequence.
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

// Of the gated delta rule.
struct DeltaProducts {
  double with_state;       // a token of every value head times its state
  double keys_by_token;    // keys, or queries, by those before them in a chunk: half of it counts
  double values_by_token;  // likewise values

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
  return product(op.x.shape, op.w);
}
template <>
double matrix_flops(const LinearBackwardInput& op) {
  return product(op.dy.shape, op.w);
}
template <>
double matrix_flops(const LinearBackwardWeight& op) {
  return product(op.x.shape, op.dw);
}
template <>
double matrix_flops(const ScaledProduct& op) {
  return product(op.a.shape, op.b);
}
// Every row meets one expert's matrix [N, K].
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
// In chunks: products of tokens with states, and of tokens with those before them in the chunk.
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
