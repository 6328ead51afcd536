#include <cmath>

#include "ops/reference/dropout.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {
namespace {

Values weights_or_ones(const TensorView& gamma, std::int64_t columns) {
  return gamma ? load(gamma) : Values(static_cast<std::size_t>(columns), 1.0);
}

}  // namespace

void ReferenceBackend::execute(const NormForward& op, Resources) {
  const std::int64_t d_count = op.x.shape.back(), rows = op.x.elements() / d_count;
  const double d = static_cast<double>(d_count);
  Values x = load(op.x);
  if (op.branch) {
    const Values branch = load(op.branch);
    for (std::int64_t i = 0; i < rows * d_count; ++i)
      x[i] += branch[i] * dropout_factor(op.dropout, i / d_count, i % d_count, d_count);
    store(x, op.sum);
    x = load(op.sum);  // what is normalised is what backward will read
  }
  const Values gamma = weights_or_ones(op.gamma, d_count), beta = load(op.beta);
  Values stats(static_cast<std::size_t>(rows * 2));
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = x.data() + r * d_count;
    double mean = 0, square = 0;
    if (op.kind == NormKind::kLayerNorm) {
      for (std::int64_t i = 0; i < d_count; ++i) mean += row[i];
      mean /= d;
    }
    for (std::int64_t i = 0; i < d_count; ++i) square += (row[i] - mean) * (row[i] - mean);
    const double rstd = 1 / std::sqrt(square / d + op.epsilon);
    for (std::int64_t i = 0; i < d_count; ++i)
      row[i] = (row[i] - mean) * rstd * gamma[i] + (beta.empty() ? 0.0 : beta[i]);
    stats[2 * r] = mean;
    stats[2 * r + 1] = rstd;
  }
  store(x, op.y);
  store(stats, op.stats);
}

void ReferenceBackend::execute(const NormBackward& op, Resources) {
  const std::int64_t d_count = op.x.shape.back(), rows = op.x.elements() / d_count;
  const double d = static_cast<double>(d_count);
  const Values x = load(op.x), stats = load(op.stats), gamma = weights_or_ones(op.gamma, d_count),
               dy = load(op.dy), dresidual = load(op.dresidual);
  Values dx(x.size()), dgamma(static_cast<std::size_t>(d_count)), dbeta(static_cast<std::size_t>(d_count));
  for (std::int64_t r = 0; r < rows; ++r) {
    const double mean = stats[2 * r], rstd = stats[2 * r + 1];
    const std::int64_t at = r * d_count;
    // With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - h mean(g h)); RMSNorm has no
    // mean(g).
    double mean_g = 0, mean_gh = 0;
    for (std::int64_t i = 0; i < d_count; ++i) {
      const double h = (x[at + i] - mean) * rstd, g = dy[at + i] * gamma[i];
      mean_g += g;
      mean_gh += g * h;
      dgamma[i] += dy[at + i] * h;
      dbeta[i] += dy[at + i];
    }
    mean_g = op.kind == NormKind::kLayerNorm ? mean_g / d : 0;
    mean_gh /= d;
    for (std::int64_t i = 0; i < d_count; ++i) {
      const double h = (x[at + i] - mean) * rstd, g = dy[at + i] * gamma[i];
      dx[at + i] = rstd * (g - mean_g - h * mean_gh) + (dresidual.empty() ? 0.0 : dresidual[at + i]);
    }
  }
  if (op.accumulate) {
    const Values dgamma_before = load(op.dgamma), dbeta_before = load(op.dbeta);
    for (std::int64_t i = 0; i < d_count; ++i) {
      if (!dgamma_before.empty()) dgamma[i] += dgamma_before[i];
      if (!dbeta_before.empty()) dbeta[i] += dbeta_before[i];
    }
  }
  store(dgamma, op.dgamma);
  store(dbeta, op.dbeta);
  store(dx, op.dx);
  if (op.dbranch) {
    for (std::int64_t i = 0; i < rows * d_count; ++i)
      dx[i] *= dropout_factor(op.dropout, i / d_count, i % d_count, d_count);
    store(dx, op.dbranch);
  }
}

}  // namespace stoa::ops
