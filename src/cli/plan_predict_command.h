// What `stoa plan predict` and the other commands of the planner need of a configuration and of the files of
// the planner.
#pragma once

#include "plan/calibration.h"
#include "plan/workload.h"
#include "train/run_config.h"

namespace stoa::cli {

// What a configuration trains, as the input of the time model.
plan::Workload workload_of(const train::RunConfig& config);

// Data of the planner that ships next to the presets. ConfigError if it is missing.
fs::path clusters_directory();
fs::path software_profiles();

// The published runs most similar to a workload (configs/planner/published_rows.csv), as text.
std::vector<std::string> nearest_published(const plan::Workload& w, const plan::Cluster& c,
                                           const plan::Calibration& calibration);

}  // namespace stoa::cli
