// What a run's configuration changes, for its report.
#pragma once

#include "cli/schema.h"
#include "config/difference.h"

namespace stoa::cli {

// Against the preset that a configuration file is or builds upon; against the defaults where there is none.
struct PresetChanges {
  std::string preset;  // name, "" for the defaults
  std::vector<config::Difference> changes;
};
PresetChanges changes_against_preset(const std::string& config, const RunConfig& run);

}  // namespace stoa::cli
