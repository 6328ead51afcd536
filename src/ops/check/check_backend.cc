#include "ops/check/check_backend.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/cache_rows.h"

namespace stoa::ops {

namespace {

Tolerance through(Tolerance base, DType inner) {
  base.inner = inner;
  return base;
}

// The length of the longest row of `width` numbers.
double longest_vector(const TensorView& x, std::int64_t width) {
  const Values values = load_cached(x, width);
  const auto d = static_cast<std::size_t>(width);
  double longest = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += d) {
    double square = 0;
    for (std::size_t i = begin; i < begin + d; ++i) square += values[i] * values[i];
    if (std::isfinite(square))
      longest = std::max(longest, square);  // unused rows of a cache may hold anything
  }
  return std::sqrt(longest);
}

// The length of the longest column of w [rows, columns].
double longest_column(const TensorView& w) {
  const Values values = load(w);
  const auto columns = static_cast<std::size_t>(w.shape[1]);
  std::vector<double> squares(columns);
  for (std::size_t i = 0; i < values.size(); ++i) squares[i % columns] += values[i] * values[i];
  return std::sqrt(*std::max_element(squares.begin(), squares.end()));
}

// Matrix units of GPUs truncate the sum of 16 products and what came before, so that depth / 16 errors of up
// to 2 u(sum) add in one direction; what came before is about the product of the lengths / sqrt(depth).
Tolerance product_tolerance(Tolerance base, std::int64_t depth, double lengths) {
  base.cancelled = lengths * std::sqrt(static_cast<double>(depth)) / 64;
  return base;
}

// The relative error of a probability is the absolute error of its score, some u(sum) |q| |k| scale.
template <class Op>
Tolerance attention_tolerance(const Op& op, Tolerance base) {
  base.sum_ulps += 4 * std::fabs(op.options.scale) * longest_vector(op.q, op.q.shape[2]) *
                   longest_vector(op.k, op.q.shape[2]);
  return through(base, op.q.dtype);
}

}  // namespace

template class ForwardOps<CheckBackend>;

std::string_view CheckBackend::name() const { return "check"; }

Tolerance tolerance_for(const LinearForward& op, Tolerance base) {
  const std::int64_t depth = op.x.shape[1];
  return product_tolerance(base, depth, longest_vector(op.x, depth) * longest_vector(op.w, depth));
}
Tolerance tolerance_for(const LinearBackwardInput& op, Tolerance base) {
  const std::int64_t depth = op.dy.shape[1];
  return product_tolerance(base, depth, longest_vector(op.dy, depth) * longest_column(op.w));
}
Tolerance tolerance_for(const LinearBackwardWeight& op, Tolerance base) {
  base.sum_ulps = std::max(base.sum_ulps, 8 * std::sqrt(static_cast<double>(op.x.shape[0])));
  return base;
}
Tolerance tolerance_for(const AttentionForward& op, Tolerance base) {
  // Keys and values of a cache may be rounded to the type of the queries, too.
  if (op.k.dtype != op.q.dtype) base.inner_ulps *= 2;
  return attention_tolerance(op, base);
}
Tolerance tolerance_for(const AttentionBackward& op, Tolerance base) {
  base.inner_ulps *= 3;  // probabilities, their gradients, and those of scores (cuDNN)
  // dq sums scale p (dout v - delta) k, where the difference may be nothing but rounding (one visible key).
  const std::int64_t d = op.q.shape[2];
  const double width = std::sqrt(static_cast<double>(d));
  base.cancelled = std::fabs(op.options.scale) * longest_vector(op.dout, d) * longest_vector(op.v, d) *
                   std::max(longest_vector(op.q, d), longest_vector(op.k, d)) / width;
  return attention_tolerance(op, base);
}
Tolerance tolerance_for(const NormForward& op, Tolerance base) {
  return op.branch ? through(base, op.x.dtype) : base;
}
Tolerance tolerance_for(const NormBackward& op, Tolerance base) {
  return op.dbranch ? through(base, op.dx.dtype) : base;
}
Tolerance tolerance_for(const SumSquares&, Tolerance base) {
  // Sums of non-negative numbers in fp64: the error of n additions is at most n u, typically sqrt(n) u.
  base.sum_ulps *= 64;
  return base;
}

}  // namespace stoa::ops
