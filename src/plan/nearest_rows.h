// Published runs that are most like a workload: what a prediction can be compared with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/calibration.h"
#include "plan/rows.h"

namespace stoa::plan {

// How unlike two workloads are, in doublings of what matters; 0: alike.
double distance_of(const Workload& a, const Workload& b);

// The `count` nearest of `rows` (measured, without a problem), nearest first, as text: "GPT-3 175B on 1024 x
// A100-SXM-80GB, TP8 PP8 DP16, microbatch 2: 22.8 s measured, 2.6 % more predicted (Azure HPC blog)". Another
// kind of device counts as two doublings.
std::vector<std::string> nearest_rows(std::span<const Row> rows, const Workload& w, const Cluster& c,
                                      const Calibration& calibration, std::size_t count = 3);

}  // namespace stoa::plan
