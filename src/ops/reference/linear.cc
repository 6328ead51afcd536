#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

void ReferenceBackend::execute(const LinearForward& op, Resources) {
  const std::int64_t t_count = op.x.shape[0], k_count = op.x.shape[1], n_count = op.w.shape[0];
  const Values x = load(op.x), w = load(op.w), bias = load(op.bias), x2 = load(op.x2), w2 = load(op.w2);
  const std::int64_t r_count = op.x2 ? op.x2.shape[1] : 0;
  Values y(static_cast<std::size_t>(t_count * n_count));
  for (std::int64_t t = 0; t < t_count; ++t) {
    for (std::int64_t n = 0; n < n_count; ++n) {
      const double *a = x.data() + t * k_count, *b = w.data() + n * k_count;
      double sum = 0;
      for (std::int64_t k = 0; k < k_count; ++k) sum += a[k] * b[k];
      for (std::int64_t r = 0; r < r_count; ++r) sum += x2[t * r_count + r] * w2[n * r_count + r];
      y[t * n_count + n] = bias.empty() ? sum : sum + bias[n];
    }
  }
  store(y, op.y);
}

void ReferenceBackend::execute(const LinearBackwardInput& op, Resources) {
  const std::int64_t t_count = op.dy.shape[0], k_count = op.dx.shape[1];
  Values dx(static_cast<std::size_t>(t_count * k_count));
  const auto add_product = [&](const TensorView& rows, const TensorView& matrix) {
    const Values dy = load(rows), w = load(matrix);
    const std::int64_t count = rows.shape[1];
    for (std::int64_t t = 0; t < t_count; ++t) {
      double* out = dx.data() + t * k_count;
      for (std::int64_t n = 0; n < count; ++n) {
        const double g = dy[t * count + n];
        const double* b = w.data() + n * k_count;
        for (std::int64_t k = 0; k < k_count; ++k) out[k] += g * b[k];
      }
    }
  };
  add_product(op.dy, op.w);
  if (op.dy2) add_product(op.dy2, op.w2);
  if (op.accumulate) {
    const Values before = load(op.dx);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += before[i];
  }
  store(dx, op.dx);
}

void ReferenceBackend::execute(const LinearBackwardWeight& op, Resources) {
  const std::int64_t t_count = op.x.shape[0], k_count = op.x.shape[1], n_count = op.dy.shape[1];
  const Values x = load(op.x), dy = load(op.dy);
  Values dw(static_cast<std::size_t>(n_count * k_count)), dbias(static_cast<std::size_t>(n_count));
  for (std::int64_t t = 0; t < t_count; ++t) {
    const double* a = x.data() + t * k_count;
    for (std::int64_t n = 0; n < n_count; ++n) {
      const double g = dy[t * n_count + n];
      double* out = dw.data() + n * k_count;
      for (std::int64_t k = 0; k < k_count; ++k) out[k] += g * a[k];
      dbias[n] += g;
    }
  }
  if (op.accumulate) {
    const Values dw_before = load(op.dw), dbias_before = load(op.dbias);
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += dw_before[i];
    for (std::size_t i = 0; i < dbias_before.size(); ++i) dbias[i] += dbias_before[i];
  }
  store(dw, op.dw);
  store(dbias, op.dbias);
}

}  // namespace stoa::ops
