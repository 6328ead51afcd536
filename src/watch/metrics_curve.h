// A curve of bounded size however long the run: neighbouring points become their mean when there are too
// many.
#pragma once

#include <cstddef>
#include <vector>

#include "watch/metrics_file.h"

namespace stoa::watch {

class MetricsCurve {
 public:
  explicit MetricsCurve(std::size_t most = 4096) : most_(most) {}

  void add(const MetricsPoint& point);
  // Each point represents stride() consecutive ones, the last perhaps fewer: means of finite values; steps
  // and counts as at its end.
  const std::vector<MetricsPoint>& points() const { return points_; }
  std::size_t stride() const { return stride_; }

 private:
  void halve();

  std::size_t most_;
  std::size_t stride_ = 1, in_last_ = 0;  // points that one stands for, and the last one
  std::vector<MetricsPoint> points_;
};

}  // namespace stoa::watch
