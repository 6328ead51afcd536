// Rows of published measurements: one training run each, with the columns of shared tables of such rows
// (docs/planner.md). Blank fields get documented defaults, which the row's notes name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/cluster.h"
#include "plan/csv.h"
#include "plan/software_profiles.h"
#include "plan/workload.h"

namespace stoa::plan {

struct Row {
  std::string source, model, grade, group;  // group: rows that are not independent (file, else source)
  Workload workload;
  Cluster cluster;
  std::optional<double> seconds, memory_gb;  // measured
  std::vector<std::string> notes;            // what was assumed
  bool independent = true;                   // a run of its own: see SoftwareProfiles
  std::string problem;                       // why it cannot be predicted; or empty
};

// All rows of the table, in its order. ConfigError lists missing columns.
std::vector<Row> read_rows(const CsvTable& table, std::span<const Cluster> clusters,
                           const SoftwareProfiles& profiles);

}  // namespace stoa::plan
