#include "ops/op_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/timing.h"

namespace stoa::ops {

namespace {

double tflops(const OpTimer::Total& total) {
  return total.seconds > 0 ? total.matrix_flops / total.seconds * 1e-12 : 0;
}

std::vector<std::pair<std::string, OpTimer::Total>> slowest_first(
    const std::map<std::string, OpTimer::Total, std::less<>>& totals) {
  std::vector<std::pair<std::string, OpTimer::Total>> rows(totals.begin(), totals.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return rows;
}

}  // namespace

void OpTimer::before(const char*, double matrix_flops) {
  flops_ = matrix_flops;
  start_ = Clock::now();
}

void OpTimer::after(const char* op) {
  if (stream_) stream_->synchronize();
  const double seconds = seconds_since(start_);
  auto found = totals_.find(std::string_view(op));
  if (found == totals_.end()) found = totals_.emplace(op, Total{0, 0, 0, seconds}).first;
  Total& total = found->second;
  total.calls += 1;
  total.seconds += seconds;
  total.matrix_flops += flops_;
  total.shortest = std::min(total.shortest, seconds);
}

double OpTimer::seconds() const {
  double sum = 0;
  for (const auto& [name, total] : totals_) sum += total.seconds;
  return sum;
}

std::string OpTimer::table(double peak_tflops) const {
  const double all = seconds();
  fmt::memory_buffer out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{:<24} {:>8} {:>12} {:>7} {:>9}", "operation", "calls", "ms", "share", "TFLOP/s");
  fmt::format_to(to, "{}\n", peak_tflops > 0 ? "   of peak" : "");
  for (const auto& [name, total] : slowest_first(totals_)) {
    fmt::format_to(to, "{:<24} {:>8} {:>12.3f} {:>6.1f}%", name, total.calls, total.seconds * 1e3,
                   all > 0 ? 100 * total.seconds / all : 0);
    if (total.matrix_flops > 0) {
      fmt::format_to(to, " {:>9.3f}", tflops(total));
      if (peak_tflops > 0) fmt::format_to(to, " {:>8.1f}%", 100 * tflops(total) / peak_tflops);
    }
    fmt::format_to(to, "\n");
  }
  fmt::format_to(to, "{:<24} {:>8} {:>12.3f}\n", "all", "", all * 1e3);
  return fmt::to_string(out);
}

std::string OpTimer::json() const {
  auto out = nlohmann::ordered_json::object();
  for (const auto& [name, total] : slowest_first(totals_))
    out[std::string(name)] = {{"calls", total.calls},
                              {"seconds", total.seconds},
                              {"matrix_flops", total.matrix_flops},
                              {"tflops", tflops(total)}};
  return out.dump();
}

}  // namespace stoa::ops
