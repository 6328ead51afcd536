#include "plan/money.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::plan {
namespace {

constexpr double kHoursOfYear = 24 * 365.25;

}  // namespace

std::optional<double> MoneyAnswer::total() const {
  if (!rent && !capital && !energy_cost) return std::nullopt;
  return rent.value_or(0) + capital.value_or(0) + energy_cost.value_or(0);
}

MoneyAnswer money(const MoneyRequest& r, const Cluster& cluster) {
  require<ConfigError>(r.step_seconds > 0 && r.steps > 0 && r.devices > 0,
                       "{} steps of {} s on {} devices: expected numbers above 0", r.steps, r.step_seconds,
                       r.devices);
  require<ConfigError>(!r.checkpoint_minutes || *r.checkpoint_minutes > 0,
                       "a checkpoint every {} minutes: expected more than 0",
                       r.checkpoint_minutes.value_or(0));
  const Economy& e = cluster.economy;
  const auto devices = static_cast<double>(r.devices);
  MoneyAnswer a;
  const double work = r.step_seconds * r.steps / 3600;  // hours
  a.step_days = work / 24;
  if (e.storage_bandwidth_gbs && *e.storage_bandwidth_gbs > 0)
    a.checkpoint_seconds = r.state_bytes / (*e.storage_bandwidth_gbs * 1e9);
  a.mean_hours_to_failure =
      e.failures_per_device_year > 0 ? kHoursOfYear / (e.failures_per_device_year * devices) : 1e12;
  const double save = std::max(a.checkpoint_seconds, 1.0) / 3600;
  const double best = std::sqrt(2 * save * a.mean_hours_to_failure);
  const double interval = std::clamp(r.checkpoint_minutes ? *r.checkpoint_minutes / 60 : best,
                                     r.step_seconds / 3600, std::max(work, 1e-6));
  a.checkpoint_minutes = interval * 60;
  const double saving =
      r.checkpoint_minutes || a.checkpoint_seconds > 0 ? a.checkpoint_seconds / 3600 / interval : 0;
  const double lost =
      (interval / 2 + e.restart_minutes / 60) / a.mean_hours_to_failure;  // of an hour that runs
  const double hours = work * (1 + saving) * (1 + lost);
  a.failures = work * (1 + saving) / a.mean_hours_to_failure;
  a.days = hours / 24;
  a.goodput = work / hours;
  a.device_hours = hours * devices;
  if (e.price_per_device_hour) a.rent = a.device_hours * *e.price_per_device_hour;
  if (e.capital_per_device)
    a.capital = *e.capital_per_device * devices * hours / (e.lifetime_years * kHoursOfYear);
  if (cluster.device.power_watts > 0) {
    a.energy_kwh =
        a.device_hours * (cluster.device.power_watts + e.host_watts_per_device) * e.power_overhead / 1000;
    if (e.price_per_kwh && !e.price_per_device_hour)
      a.energy_cost = *a.energy_kwh * *e.price_per_kwh;  // rent has it
  }
  return a;
}

std::string to_text(const MoneyAnswer& a) {
  std::string out = fmt::format(
      "  {:.2f} days of steps; {:.2f} days with {:.1f} failures (one in {:.1f} h), a checkpoint every "
      "{:.0f} min{}: {:.1f} % of the time counts\n  {:.0f} device-hours",
      a.step_days, a.days, a.failures, a.mean_hours_to_failure, a.checkpoint_minutes,
      a.checkpoint_seconds > 0 ? fmt::format(" ({:.0f} s each)", a.checkpoint_seconds) : "", 100 * a.goodput,
      a.device_hours);
  if (a.rent) out += fmt::format(", rent {:.0f}", *a.rent);
  if (a.capital) out += fmt::format(", capital {:.0f}", *a.capital);
  if (a.energy_kwh) out += fmt::format(", {:.0f} MWh", *a.energy_kwh / 1000);
  if (a.energy_cost) out += fmt::format(" for {:.0f}", *a.energy_cost);
  if (const auto total = a.total()) out += fmt::format("; {:.0f} in all", *total);
  return out + "\n";
}

}  // namespace stoa::plan
