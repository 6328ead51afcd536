// How long a training takes with its failures, and what it costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/cluster.h"

namespace stoa::plan {

struct MoneyRequest {
  double step_seconds = 0;
  double steps = 0;
  std::int64_t devices = 1;
  double state_bytes = 0;                         // of a checkpoint
  std::optional<double> checkpoint_minutes = {};  // between checkpoints; none: the best
};

struct MoneyAnswer {
  double step_days = 0;              // without failures
  double checkpoint_seconds = 0;     // of one, where the file system's bandwidth is known
  double checkpoint_minutes = 0;     // between checkpoints
  double mean_hours_to_failure = 0;  // of the whole job
  double failures = 0;               // expected
  double days = 0;                   // expected, with checkpoints, restarts and lost work
  double goodput = 1;                // share of the time in which steps are made that count
  double device_hours = 0;
  std::optional<double> rent, capital, energy_kwh, energy_cost;
  std::optional<double> total() const;
};

// Failures are as frequent as the cluster says, and independent: interval and loss by Young 1974 (its
// first-order optimum, sqrt(2 x time of a checkpoint x time between failures)); half an interval and a
// restart are lost at each. ConfigError for numbers that are not positive.
MoneyAnswer money(const MoneyRequest& request, const Cluster& cluster);

std::string to_text(const MoneyAnswer& answer);

}  // namespace stoa::plan
