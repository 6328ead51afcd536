// How many machines keep the limits of latency at a rate of requests.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "serve/load/load_report.h"

namespace stoa::serve {

struct MachinesQuestion {
  double rate = 1;           // requests per second, spread over the machines at random
  double good_share = 0.95;  // of the requests that must keep all limits
  std::int64_t most = 1000;  // machines
};

struct MachinesRow {
  std::int64_t machines = 1;
  LoadReport each;  // of one of them
  double share() const {
    return each.sent == 0 ? 1 : static_cast<double>(each.good) / static_cast<double>(each.sent);
  }
  // Requests per second that keep all limits, on all machines.
  double goodput(double rate) const { return rate * share(); }
};

struct MachinesAnswer {
  LoadReport alone;                      // of requests that never meet
  double most_rate = 0;                  // that one machine holds; 0: not even requests that never meet
  std::optional<std::int64_t> machines;  // none: more than the most, or no number is enough
  std::vector<MachinesRow> rows;         // from 1 machine to one more than needed
};

// `at_rate`: what one machine's clients see at a rate, by the same draws for every rate.
MachinesAnswer find_machines(const MachinesQuestion& question,
                             const std::function<LoadReport(double)>& at_rate);

}  // namespace stoa::serve
