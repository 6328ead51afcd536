#include "watch/metrics_curve.h"

#include <cmath>

namespace stoa::watch {
namespace {

// The mean of `na` points and `nb` further ones.
double mean_of(double a, std::size_t na, double b, std::size_t nb) {
  if (!std::isfinite(a)) return b;
  if (!std::isfinite(b)) return a;
  const auto wa = static_cast<double>(na), wb = static_cast<double>(nb);
  return (a * wa + b * wb) / (wa + wb);
}

MetricsPoint join(const MetricsPoint& a, std::size_t na, const MetricsPoint& b, std::size_t nb) {
  MetricsPoint out = b;
  for (const auto member : {&MetricsPoint::loss, &MetricsPoint::learning_rate, &MetricsPoint::gradient_norm,
                            &MetricsPoint::loss_scale, &MetricsPoint::step_seconds,
                            &MetricsPoint::tokens_per_second, &MetricsPoint::model_tflops, &MetricsPoint::mfu,
                            &MetricsPoint::validation_loss, &MetricsPoint::bits_per_byte,
                            &MetricsPoint::accuracy, &MetricsPoint::margin, &MetricsPoint::divergence})
    out.*member = mean_of(a.*member, na, b.*member, nb);
  return out;
}

}  // namespace

void MetricsCurve::add(const MetricsPoint& point) {
  if (in_last_ > 0 && in_last_ < stride_) {
    points_.back() = join(points_.back(), in_last_, point, 1);
    ++in_last_;
    return;
  }
  if (points_.size() == most_) {
    halve();
    if (in_last_ < stride_) return add(point);
  }
  points_.push_back(point);
  in_last_ = 1;
}

void MetricsCurve::halve() {
  const std::size_t before = stride_;
  std::size_t kept = 0;
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2)
    points_[kept++] = join(points_[i], before, points_[i + 1], before);
  in_last_ = 2 * before;
  if (points_.size() % 2 == 1) {
    points_[kept++] = points_.back();
    in_last_ = before;
  }
  points_.resize(kept);
  stride_ = 2 * before;
}

}  // namespace stoa::watch
