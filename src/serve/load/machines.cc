#include "serve/load/machines.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace stoa::serve {
namespace {

constexpr double kPrecision = 1.01;  // of the largest rate
constexpr std::int64_t kAllRows = 8;

// The numbers of machines of a table that ends at `last`.
std::set<std::int64_t> rows_up_to(std::int64_t last) {
  std::set<std::int64_t> out;
  for (std::int64_t n = 1; n <= last; n = last <= kAllRows ? n + 1 : 2 * n) out.insert(n);
  for (std::int64_t n = std::max<std::int64_t>(1, last - 2); n <= last; ++n) out.insert(n);
  return out;
}

}  // namespace

MachinesAnswer find_machines(const MachinesQuestion& question,
                             const std::function<LoadReport(double)>& at_rate) {
  const auto good = [&](const LoadReport& report) {
    return MachinesRow{1, report}.share() >= question.good_share;
  };
  const auto holds = [&](double rate) { return good(at_rate(rate)); };
  MachinesAnswer out;
  constexpr double kNearlyNone = 1e-6;
  out.alone = at_rate(kNearlyNone);
  if (good(out.alone)) {
    double low = kNearlyNone, high = 1 / std::max(out.alone.whole.mean, 1e-9);
    for (; holds(high) && high < 1e9; high *= 2) low = high;
    while (high > low * kPrecision) {
      const double middle = std::sqrt(low * high);
      (holds(middle) ? low : high) = middle;
    }
    out.most_rate = low;
    const double needed = std::ceil(question.rate / low);
    if (needed <= static_cast<double>(question.most)) {
      auto machines = std::max<std::int64_t>(1, static_cast<std::int64_t>(needed));
      // The largest rate is known to 1 %.
      if (machines > 1 && holds(question.rate / static_cast<double>(machines - 1))) --machines;
      out.machines = machines;
    }
  }
  const std::int64_t last = out.machines ? *out.machines + 1 : std::min<std::int64_t>(question.most, 2);
  for (const std::int64_t machines : rows_up_to(last))
    out.rows.push_back({machines, at_rate(question.rate / static_cast<double>(machines))});
  return out;
}

}  // namespace stoa::serve
