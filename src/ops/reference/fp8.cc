#include "ops/fp8.h"

#include <cmath>
#include <limits>

#include "ops/fp8_scale.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {
namespace {

// fp8_scale() and products with it, in the type the operation forms them in.
template <class F>
Values quantized(const Quantize& op, double& inverse) {
  const DType type = op.y ? op.y.dtype : op.transposed.dtype;
  const double largest = dispatch_fp8(type, []<class T>() { return static_cast<double>(T::kLargest); });
  const F scale = fp8_scale(*op.amax.as<F>(), static_cast<F>(largest), static_cast<F>(std::exp2(-op.margin)));
  Values y = load(op.x);
  for (double& value : y)
    value = std::isinf(value) ? std::numeric_limits<double>::quiet_NaN()
                              : rounded(static_cast<double>(static_cast<F>(value) * scale), type);
  inverse = static_cast<double>(1 / scale);
  return y;
}

// Of `amax` and the magnitudes of x; NaN above all.
double raised(double amax, const TensorView& x) {
  for (const double value : load(x))
    if (!(std::fabs(value) <= amax) && !std::isnan(amax)) amax = std::fabs(value);
  return amax;
}

}  // namespace

void ReferenceBackend::execute(const AbsoluteMax& op, Resources) { store({raised(0, op.x)}, op.amax); }

void ReferenceBackend::execute(const Quantize& op, Resources) {
  const std::int64_t rows = op.x.shape[0], columns = op.x.shape[1], pitch = Quantize::padded(rows);
  double inverse = 0;
  const Values y =
      op.amax.dtype == DType::kF64 ? quantized<double>(op, inverse) : quantized<float>(op, inverse);
  store({inverse}, op.inverse_scale);
  if (op.seen) store({raised(load(op.seen)[0], op.x)}, op.seen);
  store(y, op.y);
  if (!op.transposed) return;
  Values transposed(static_cast<std::size_t>(columns * pitch));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) transposed[c * pitch + r] = y[r * columns + c];
  store(transposed, op.transposed);
}

void ReferenceBackend::execute(const GroupedAbsoluteMax& op, Resources resources) {
  for_each_group(op, [&](const AbsoluteMax& one) { execute(one, resources); });
}

void ReferenceBackend::execute(const GroupedQuantize& op, Resources resources) {
  for_each_group(op, [&](const Quantize& one) { execute(one, resources); });
}

void ReferenceBackend::execute(const ScaledProduct& op, Resources) {
  const std::int64_t m_count = op.a.shape[0], n_count = op.b.shape[0], k_count = op.a.shape[1];
  const Values a = load(op.a), b = load(op.b), bias = load(op.bias);
  const double scale = load(op.inverse_a)[0] * load(op.inverse_b)[0];
  Values out = op.accumulate ? load(op.out) : Values(static_cast<std::size_t>(m_count * n_count));
  for (std::int64_t m = 0; m < m_count; ++m) {
    for (std::int64_t n = 0; n < n_count; ++n) {
      const double *x = a.data() + m * k_count, *w = b.data() + n * k_count;
      double sum = 0;
      for (std::int64_t k = 0; k < k_count; ++k) sum += x[k] * w[k];
      out[m * n_count + n] += sum * scale + (bias.empty() ? 0 : bias[n]);
    }
  }
  store(out, op.out);
}

void ReferenceBackend::execute(const BiasBackward& op, Resources) {
  const Values dy = load(op.dy);
  const std::int64_t n_count = op.dy.shape[1];
  Values dbias(static_cast<std::size_t>(n_count));
  for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % static_cast<std::size_t>(n_count)] += dy[i];
  if (op.accumulate) {
    const Values before = load(op.dbias);
    for (std::size_t n = 0; n < dbias.size(); ++n) dbias[n] += before[n];
  }
  store(dbias, op.dbias);
}

}  // namespace stoa::ops
