#include "eval/compare_metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace stoa::eval {
namespace {

// What a step is; speed and memory are not part of it.
constexpr std::array<const char*, 7> kMetrics{"loss",    "grad_norm", "lr",      "loss_scale",
                                              "samples", "tokens",    "val_loss"};

using Curves = std::map<std::string, std::map<std::int64_t, double>>;  // by metric and step

Curves read_curves(const fs::path& path) {
  Curves curves;
  const std::string text = read_text(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a line torn by a kill
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    begin = end + 1;
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    const auto step = line["step"].get<std::int64_t>();
    for (const char* metric : kMetrics) {
      const auto value = line.find(metric);
      if (value == line.end()) continue;
      // null stands for what is not a finite number.
      curves[metric][step] =
          value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return curves;
}

CurveDifference compare_curve(const std::string& metric, const std::map<std::int64_t, double>& a,
                              const std::map<std::int64_t, double>& b, double tolerance) {
  CurveDifference d;
  d.metric = metric;
  double worst = -1;
  for (const auto& [step, x] : a) {
    const auto found = b.find(step);
    if (found == b.end()) continue;
    const double y = found->second;
    const double relative = relative_difference(x, y, std::max(std::fabs(x), std::fabs(y)));
    ++d.points;
    if (relative > tolerance) {
      ++d.different;
      if (!d.first_step) d.first_step = step;
    }
    if (relative > worst) {
      worst = d.relative = relative;
      d.worst_step = step;
      d.a = x;
      d.b = y;
    }
  }
  return d;
}

}  // namespace

double relative_difference(double a, double b, double scale) {
  if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b)))
    return 0;
  if (!std::isfinite(a) || !std::isfinite(b) || !(scale > 0))
    return a == b ? std::numeric_limits<double>::min()
                  : std::numeric_limits<double>::infinity();  // min: 0 and -0
  // Different bits are never "equal", however small the quotient.
  return std::max(std::fabs(a - b) / scale, std::numeric_limits<double>::min());
}

bool compare_metrics(const fs::path& a, const fs::path& b, double tolerance, Comparison& out) {
  const auto file = [](const fs::path& run) { return run / "metrics.jsonl"; };
  for (const auto& run : {a, b}) {
    if (!fs::exists(file(run))) {
      out.notes.push_back("no curves: '" + file(run).string() + "' does not exist");
      return true;
    }
  }
  const Curves curves_a = read_curves(file(a)), curves_b = read_curves(file(b));
  const std::map<std::int64_t, double> none;
  const auto curve = [&](const Curves& curves, const char* metric) -> const std::map<std::int64_t, double>& {
    const auto found = curves.find(metric);
    return found == curves.end() ? none : found->second;
  };
  bool same = true;
  for (const char* metric : kMetrics) {
    auto d = compare_curve(metric, curve(curves_a, metric), curve(curves_b, metric), tolerance);
    if (d.points == 0) continue;
    same = same && d.different == 0;
    out.curves.push_back(std::move(d));
  }
  const auto count_missing = [&](const Curves& from, const Curves& in) {
    return std::count_if(curve(from, "samples").begin(), curve(from, "samples").end(),
                         [&](const auto& point) { return !curve(in, "samples").contains(point.first); });
  };
  out.only_a = count_missing(curves_a, curves_b);
  out.only_b = count_missing(curves_b, curves_a);
  out.steps = static_cast<std::int64_t>(curve(curves_a, "samples").size()) - out.only_a;
  return same;
}

}  // namespace stoa::eval
