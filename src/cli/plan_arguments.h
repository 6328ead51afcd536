// Arguments that several plan commands share.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/shipped_files.h"
#include "config/value.h"
#include "plan/calibration.h"
#include "plan/cluster.h"

namespace stoa::cli {

// The value that `text` names. UsageError lists the choices and the nearest one.
template <config::NamedEnum E>
E choice(const std::string& text, const char* option) {
  std::vector<std::string> names;
  for (const auto& name : enum_names(E{})) {
    if (name.name == text) return name.value;
    names.emplace_back(name.name);
  }
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  fail<UsageError>("{} '{}': expected one of {}{}", option, text, all, did_you_mean(text, names));
}

// The cluster of this name (configs/clusters) or file.
plan::Cluster find_cluster(const std::string& name);

// The constants in `file`; if empty, those that ship with the program. "none": no constants.
plan::Calibration find_calibration(const std::string& file);

// The command that runs, as a shell would read it.
std::string command_line();

}  // namespace stoa::cli
