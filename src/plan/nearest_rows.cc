#include "plan/nearest_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/predict.h"

namespace stoa::plan {

double distance_of(const Workload& a, const Workload& b) {
  const auto gap = [](std::int64_t x, std::int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  return gap(a.model.hidden, b.model.hidden) + 0.5 * gap(a.model.layers, b.model.layers) +
         0.5 * gap(a.model.sequence, b.model.sequence) + 0.5 * gap(a.tp, b.tp) + 0.5 * gap(a.pp, b.pp) +
         0.3 * gap(a.devices(), b.devices()) + 0.3 * gap(a.micro_batch, b.micro_batch) +
         (a.format != b.format) + (a.recompute != b.recompute);
}

std::vector<std::string> nearest_rows(std::span<const Row> rows, const Workload& w, const Cluster& c,
                                      const Calibration& calibration, std::size_t count) {
  std::vector<std::pair<double, const Row*>> near;
  for (const Row& row : rows)
    if (row.problem.empty() && row.seconds)
      near.emplace_back(distance_of(w, row.workload) + (row.cluster.device.family != c.device.family ? 2 : 0),
                        &row);
  count = std::min(count, near.size());
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = *near[i].second;
    const Constants& constants =
        calibration.find(row.cluster.device.family, row.workload.software.release).constants;
    const double error = predict_time(row.workload, row.cluster, constants).sum() / *row.seconds - 1;
    out.push_back(fmt::format("{} on {} x {}, {}: {:.4g} s measured, {:.1f} % {} predicted ({})", row.model,
                              row.workload.devices(), row.cluster.device.name, row.workload.text(),
                              *row.seconds, 100 * std::abs(error), error >= 0 ? "more" : "less", row.source));
  }
  return out;
}

}  // namespace stoa::plan
