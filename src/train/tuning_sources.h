// The files of tuning data that a configuration names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/run_config.h"
#include "tune/record_file.h"

namespace stoa::train {

// The files of a split, and whether splits_string divides the first one.
struct TuningSources {
  std::vector<std::filesystem::path> train, validation;
  bool divided = false;
};
// ConfigError: none, weights, or files named twice.
TuningSources tuning_sources(const RunConfig& config);

// File name and content: what a run that resumes must find again.
std::string source_text(const tune::RecordFile& file);

}  // namespace stoa::train
