#include <cmath>
#include <numbers>

#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Point {
  double value, slope;
};

Point activation(ActivationKind kind, double x) {
  using std::numbers::inv_sqrtpi, std::numbers::sqrt2;
  switch (kind) {
    case ActivationKind::kGelu: {
      const double cdf = 0.5 * std::erfc(-x / sqrt2), density = std::exp(-x * x / 2) * inv_sqrtpi / sqrt2;
      return {x * cdf, cdf + x * density};
    }
    case ActivationKind::kGeluTanh: {
      const double c = sqrt2 * inv_sqrtpi;  // sqrt(2 / pi)
      const double t = std::tanh(c * (x + 0.044715 * x * x * x));
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)};
    }
    case ActivationKind::kQuickGelu: {
      const double s = sigmoid(1.702 * x);
      return {x * s, s + 1.702 * x * s * (1 - s)};
    }
    case ActivationKind::kSilu: {
      const double s = sigmoid(x);
      return {x * s, s + x * s * (1 - s)};
    }
    // Comparisons are such that NaN stays NaN.
    case ActivationKind::kRelu:
      return x <= 0 ? Point{0, 0} : Point{x, x == x ? 1 : x};
    case ActivationKind::kSquaredRelu:
      return x <= 0 ? Point{0, 0} : Point{x * x, 2 * x};
    case ActivationKind::kTanh: {
      const double t = std::tanh(x);
      return {t, 1 - t * t};
    }
    case ActivationKind::kSigmoid: {
      const double s = sigmoid(x);
      return {s, s * (1 - s)};
    }
    case ActivationKind::kClampedSwiglu:
      break;  // of two arguments
  }
  fail<InternalError>("activation kind {}", static_cast<int>(kind));
}

struct GatedPoint {
  double value, gate_slope, up_slope;
};

GatedPoint clamped_swiglu(const ActivationClamp& c, double gate, double up) {
  const double g = gate > c.limit ? c.limit : gate;
  const double u = up > c.limit ? c.limit : up < -c.limit ? -c.limit : up;
  const double s = sigmoid(c.alpha * g);
  return {(u + 1) * g * s, gate > c.limit ? 0 : (u + 1) * (s + c.alpha * g * s * (1 - s)),
          up > c.limit || up < -c.limit ? 0 : g * s};
}

}  // namespace

void ReferenceBackend::execute(const ActivationForward& op, Resources) {
  const std::int64_t rows = op.y.shape[0], f = op.y.shape[1], width = op.x.shape[1];
  const Values x = load(op.x);
  Values y(static_cast<std::size_t>(rows * f));
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t i = 0; i < f; ++i) {
      if (op.kind == ActivationKind::kClampedSwiglu) {
        y[t * f + i] = clamped_swiglu(op.clamp, x[t * width + i], x[t * width + f + i]).value;
        continue;
      }
      const double value = activation(op.kind, x[t * width + i]).value;
      y[t * f + i] = op.gated ? value * x[t * width + f + i] : value;
    }
  }
  store(y, op.y);
}

void ReferenceBackend::execute(const ActivationBackward& op, Resources) {
  const std::int64_t rows = op.dy.shape[0], f = op.dy.shape[1], width = op.x.shape[1];
  const Values x = load(op.x), dy = load(op.dy);
  Values dx(x.size());
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t i = 0; i < f; ++i) {
      const double g = dy[t * f + i];
      if (op.kind == ActivationKind::kClampedSwiglu) {
        const GatedPoint point = clamped_swiglu(op.clamp, x[t * width + i], x[t * width + f + i]);
        dx[t * width + i] = g * point.gate_slope;
        dx[t * width + f + i] = g * point.up_slope;
        continue;
      }
      const Point point = activation(op.kind, x[t * width + i]);
      dx[t * width + i] = g * point.slope;
      if (op.gated) {
        dx[t * width + i] *= x[t * width + f + i];
        dx[t * width + f + i] = g * point.value;
      }
    }
  }
  store(dx, op.dx);
}

}  // namespace stoa::ops
