#include "plan/money.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stoa::plan {
namespace {

Cluster cluster_of(double failures) {
  Cluster c;
  c.device.power_watts = 400;
  c.economy.failures_per_device_year = failures;
  c.economy.restart_minutes = 30;
  c.economy.price_per_device_hour = 2;
  c.economy.storage_bandwidth_gbs = 100;
  c.economy.power_overhead = 1.25;
  return c;
}

TEST(Money, WithoutFailuresItIsTheSteps) {
  Cluster c = cluster_of(0);
  c.economy.storage_bandwidth_gbs.reset();
  const MoneyAnswer a = money({10, 8640, 100, 1e12, {}}, c);
  EXPECT_DOUBLE_EQ(a.step_days, 1);
  EXPECT_NEAR(a.days, 1, 1e-6);
  EXPECT_NEAR(a.device_hours, 2400, 0.01);
  EXPECT_NEAR(*a.rent, 4800, 0.02);
  EXPECT_NEAR(*a.energy_kwh, 2400 * 0.4 * 1.25, 0.01);
  EXPECT_NEAR(*a.total(), *a.rent, 1e-9);  // rent has the energy
}

TEST(Money, FailuresCostHalfAnIntervalAndARestart) {
  // 8766 h in a year, 876.6 devices, 1 failure per device and year: one in 10 h.
  Cluster c = cluster_of(1);
  MoneyRequest r{10, 36000, 0, 0, 60.0};
  r.devices = 877;
  const MoneyAnswer a = money(r, c);
  EXPECT_NEAR(a.mean_hours_to_failure, 10, 0.01);
  EXPECT_NEAR(a.days * 24 / (100 * (1 + (0.5 + 0.5) / 10)), 1, 1e-3);
  EXPECT_NEAR(a.goodput, 1 / 1.1, 1e-3);
}

TEST(Money, TheBestIntervalIsTheBest) {
  const Cluster c = cluster_of(2);
  MoneyRequest r{20, 100000, 1024, 2.5e12, {}};
  const double best = money(r, c).days;
  for (const double minutes : {5.0, 20.0, 60.0, 240.0}) {
    r.checkpoint_minutes = minutes;
    EXPECT_GE(money(r, c).days, best * 0.999) << minutes;
  }
}

TEST(Money, RefusesWhatIsNotPositive) {
  EXPECT_THROW(money({0, 1, 1, 0, {}}, cluster_of(1)), ConfigError);
  EXPECT_THROW(money({1, 1, 1, 0, 0.0}, cluster_of(1)), ConfigError);
}

}  // namespace
}  // namespace stoa::plan
