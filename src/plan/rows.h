// Rows of published measurements: a training run each, with the columns of shared tables of such rows
// (docs/planner.md). What a row leaves blank is filled by stated defaults, which the row's notes name.
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
  std::string source, model, grade, group;  // group: rows that stand or fall together (file, else source)
  Workload workload;
  Cluster cluster;
  std::optional<double> seconds, memory_gb;  // measured
  std::vector<std::string> notes;            // what was assumed
  bool independent = true;                   // a run of its own: see SoftwareProfiles
  std::string problem;                       // why it cannot be predicted; empty: it can
};

// Of every row of the table, in its order. ConfigError lists the columns that are missing.
std::vector<Row> read_rows(const CsvTable& table, std::span<const Cluster> clusters,
                           const SoftwareProfiles& profiles);

}  // namespace stoa::plan
